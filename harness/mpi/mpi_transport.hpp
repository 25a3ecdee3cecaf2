#pragma once

#include <deque>
#include <list>
#include <memory>
#include <optional>

#include "harness/transport.hpp"

namespace cgconform::harness {

/// Messages over MPI, with non-blocking calls only. Initialises MPI, and finalises it when
/// destroyed; all ranks have to get there.
class MpiTransport final : public Transport {
 public:
  MpiTransport();
  ~MpiTransport() override;
  MpiTransport(const MpiTransport&) = delete;
  MpiTransport& operator=(const MpiTransport&) = delete;
  MpiTransport(MpiTransport&&) = delete;
  MpiTransport& operator=(MpiTransport&&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void send(int destination, const Message& message) override;
  std::optional<ReceivedMessage> poll() override;
  bool flushed() override;

  /// Ends all ranks at once with this exit code: for a fault after which they cannot agree.
  [[noreturn]] static void abort(int exit_code);

 private:
  struct Transfer;
  void start_receives();
  void finish_sends();
  std::optional<ReceivedMessage> take_completed();

  int rank_ = 0;
  int size_ = 1;
  std::deque<Message> to_self_;
  std::list<Transfer> sends_;
  std::list<Transfer> receives_;  ///< in the order in which they were matched
};

}  // namespace cgconform::harness

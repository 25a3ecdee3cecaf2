#pragma once

#include <deque>
#include <optional>
#include <utility>

#include "harness/protocol.hpp"

namespace cgconform::harness {

struct ReceivedMessage {
  int source = 0;
  Message message;
};

/// Messages between supervisors. No call waits for another rank. Messages of one sender arrive in
/// the order in which they were sent.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual void send(int destination, const Message& message) = 0;
  /// The next message that has arrived; also moves pending sends on.
  virtual std::optional<ReceivedMessage> poll() = 0;
  /// True where all that was sent has left.
  virtual bool flushed() = 0;
};

/// A world of one rank: a run without a launcher.
class LoopbackTransport final : public Transport {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void send(int /*destination*/, const Message& message) override { queue_.push_back(message); }
  std::optional<ReceivedMessage> poll() override {
    if (queue_.empty()) return std::nullopt;
    ReceivedMessage received{0, std::move(queue_.front())};
    queue_.pop_front();
    return received;
  }
  bool flushed() override { return true; }

 private:
  std::deque<Message> queue_;
};

}  // namespace cgconform::harness

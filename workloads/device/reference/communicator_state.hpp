#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "workloads/device/reference/communication.hpp"
#include "workloads/device/reference/gloo_mesh.hpp"
#include "workloads/device/reference/mailbox.hpp"

namespace cgconform::workloads::reference {

/// Numbers the messages to and from each peer: eager ones for the communicator's life, captured
/// ones within their capture. Both ends count the same calls, so equal numbers mean the same
/// message.
class MessageNumbers {
 public:
  explicit MessageNumbers(int ranks);
  /// `capture` is the number of the capture the call belongs to, 0 where eager.
  std::uint64_t next_sent(std::uint64_t capture, int peer);
  std::uint64_t next_received(std::uint64_t capture, int peer);

 private:
  struct Counts {
    std::vector<std::uint64_t> sent;
    std::vector<std::uint64_t> received;
  };
  Counts& counts(std::uint64_t capture);

  std::size_t ranks_;
  std::map<std::uint64_t, Counts> by_capture_;
};

/// The part of a communicator that its captured operations keep alive.
class CommunicatorState : public CommunicatorCore {
 public:
  CommunicatorState(const CommunicatorOptions& options,
                    std::shared_ptr<gloo::transport::Device> transport,
                    std::function<void()> arrived);

  std::string_view name() const override { return name_; }
  int rank() const { return rank_; }
  int size() const { return size_; }
  std::chrono::milliseconds timeout() const { return timeout_; }
  Mailbox& mailbox() { return mailbox_; }

  void add_graph_reference() override;
  void drop_graph_reference() override;
  int graph_references() const;
  void require_open(std::string_view call) const override;

  void send(int peer, const MessageHeader& header, const void* payload);
  /// The oldest message of the peer where it arrived, verified against what is expected. Throws
  /// communicator_mismatch or communicator_error and keeps the first such error.
  std::optional<Message> take(int peer, const MessageHeader& expected, std::string_view label);
  Message exchange_with(int peer, std::chrono::steady_clock::time_point deadline);
  ErrorCategory async_error() const;
  void note_error(ErrorCategory category);

  /// Waits until no graph holds the communicator, at most its timeout, and leaves the peers. False
  /// where graphs still hold it.
  bool close();
  /// Waits without bound until no graph holds the communicator, and leaves the peers.
  void close_when_unused();

 private:
  std::string name_;
  int rank_;
  int size_;
  std::chrono::milliseconds timeout_;
  Mailbox mailbox_;
  std::atomic<ErrorCategory> error_{ErrorCategory::success};
  mutable std::mutex mutex_;
  std::condition_variable dropped_;
  int graph_references_ = 0;
  bool open_ = true;
  std::unique_ptr<GlooMesh> mesh_;  // last: its threads use the mailbox
};

}  // namespace cgconform::workloads::reference

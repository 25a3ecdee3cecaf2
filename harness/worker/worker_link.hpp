#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "harness/control_channel.hpp"
#include "harness/protocol.hpp"
#include "workloads/device/communicator.hpp"

namespace cgconform::harness {

/// The worker's end of the control channel: messages from its supervisor, and the rendezvous store
/// of its gangs, which rank 0 keeps. Used by one thread.
class WorkerLink {
 public:
  explicit WorkerLink(ControlChannel& channel) : channel_(channel) {}

  /// Waits for the next message; empty once the supervisor is gone.
  std::optional<Message> receive();
  void send(const Message& message);
  /// Bytes as they are, for mock cells.
  void send_bytes(const Packet& bytes);

  /// Waits for a value of the gang's store. Throws DeviceError communicator_timeout.
  std::string await_value(std::uint64_t gang, const std::string& key,
                          std::chrono::milliseconds deadline);

  /// The store through which the workers of a gang find each other. Must not outlive the link.
  std::shared_ptr<workloads::RendezvousStore> store(std::uint64_t gang);

 private:
  ControlChannel& channel_;
  std::deque<Message> waiting_;  ///< messages that came while a value was awaited
};

}  // namespace cgconform::harness

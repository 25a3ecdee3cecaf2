#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "workloads/device/communicator.hpp"
#include "workloads/device/reference/mailbox.hpp"
#include "workloads/device/reference/message.hpp"

namespace gloo {
class Context;
namespace transport {
class Device;
class UnboundBuffer;
}  // namespace transport
}  // namespace gloo

namespace cgconform::workloads::reference {

/// A Gloo endpoint on an interface (empty: the loopback) with its event thread; shared by the
/// communicators of a device.
std::shared_ptr<gloo::transport::Device> create_gloo_device(const std::string& network_interface);

/// Connections of this rank to every other, over Gloo's TCP transport. A thread for each peer moves
/// what arrives into the mailbox, so that sends never wait for the receiver's calls and a lost
/// connection is seen at once.
class GlooMesh {
 public:
  /// Meets the other ranks through the store. Throws communicator_timeout or communicator_error.
  GlooMesh(const CommunicatorOptions& options, std::shared_ptr<gloo::transport::Device> device,
           Mailbox& mailbox);
  ~GlooMesh();
  GlooMesh(const GlooMesh&) = delete;
  GlooMesh& operator=(const GlooMesh&) = delete;

  /// Copies and sends. Throws communicator_error where the peer is lost. Thread-safe.
  void send(int peer, const MessageHeader& header, const void* payload);
  /// Says goodbye, waits (bounded) for what was sent and ends the connections. Does not throw.
  void close();

 private:
  struct Outgoing {
    std::vector<std::byte> bytes;
    std::unique_ptr<gloo::transport::UnboundBuffer> buffer;
  };
  struct Peer;

  void post(Peer& peer, std::uint64_t slot, std::vector<std::byte> bytes);
  void wait_for_oldest(Peer& peer);
  void receive_from(Peer& peer);

  int rank_;
  std::chrono::milliseconds timeout_;
  Mailbox& mailbox_;
  std::shared_ptr<gloo::Context> context_;
  std::vector<std::unique_ptr<Peer>> peers_;  ///< null for this rank
  bool closed_ = false;
};

}  // namespace cgconform::workloads::reference

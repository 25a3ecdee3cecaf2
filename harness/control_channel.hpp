#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/file_descriptor.hpp"

namespace cgconform::harness {

/// Bytes of one message, as made by protocol.hpp.
using Packet = std::vector<std::uint8_t>;

/// One end of the stream socket between a supervisor and its worker. Messages are a length of four
/// bytes, little-endian, and that many bytes.
class ControlChannel {
 public:
  /// A message longer than this is taken for garbage.
  static constexpr std::size_t longest_packet = std::size_t{1} << 28;

  explicit ControlChannel(FileDescriptor socket) : socket_(std::move(socket)) {}

  int descriptor() const { return socket_.get(); }
  void close() { socket_.reset(); }

  /// Sends the whole message. Returns false where the other end is gone or has not read for a
  /// minute.
  bool send(const Packet& packet);

  /// Reads what has arrived without waiting. Returns false once the other end is gone; messages
  /// that arrived before stay available.
  bool fill();
  /// The next complete message. Throws EnvironmentError where the stream is not one of messages.
  std::optional<Packet> next();

  /// Waits for the next message; empty once the other end is gone, or where `deadline` passes.
  std::optional<Packet> receive(std::optional<std::chrono::milliseconds> deadline = std::nullopt);

 private:
  FileDescriptor socket_;
  std::vector<std::uint8_t> buffer_;
  std::size_t begin_ = 0;  ///< of the bytes in `buffer_` not yet handed out
};

/// Two connected ends, both closed on exec.
std::pair<FileDescriptor, FileDescriptor> socket_pair();

}  // namespace cgconform::harness

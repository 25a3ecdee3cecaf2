#include "harness/control_channel.hpp"

#include <array>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include "harness/system_error.hpp"

namespace cgconform::harness {
namespace {

constexpr std::size_t header_bytes = 4;
constexpr std::size_t read_chunk = 65536;
constexpr int send_deadline_milliseconds = 60000;

std::array<std::uint8_t, header_bytes> encode_length(std::size_t length) {
  std::array<std::uint8_t, header_bytes> header{};
  for (std::size_t i = 0; i < header_bytes; ++i) {
    header.at(i) = static_cast<std::uint8_t>(length >> (8 * i));
  }
  return header;
}

std::size_t decode_length(const std::uint8_t* bytes) {
  std::size_t length = 0;
  for (std::size_t i = 0; i < header_bytes; ++i) {
    length |= static_cast<std::size_t>(bytes[i]) << (8 * i);
  }
  return length;
}

/// Returns false where the deadline passed; a negative one never does.
bool wait_for(int descriptor, short events, int deadline_milliseconds) {
  pollfd entry{descriptor, events, 0};
  int ready = 0;
  do {
    ready = ::poll(&entry, 1, deadline_milliseconds);
  } while (ready < 0 && errno == EINTR);
  return ready > 0;
}

}  // namespace

bool ControlChannel::send(const Packet& packet) {
  const auto header = encode_length(packet.size());
  std::vector<std::uint8_t> bytes(header.begin(), header.end());
  bytes.insert(bytes.end(), packet.begin(), packet.end());
  std::size_t sent = 0;
  while (sent < bytes.size()) {
    const ssize_t count = ::send(socket_.get(), bytes.data() + sent, bytes.size() - sent,
                                 MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count >= 0) {
      sent += static_cast<std::size_t>(count);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (!wait_for(socket_.get(), POLLOUT, send_deadline_milliseconds)) return false;
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

bool ControlChannel::fill() {
  if (!socket_.is_open()) return false;
  while (true) {
    const std::size_t used = buffer_.size();
    buffer_.resize(used + read_chunk);
    const ssize_t count = ::recv(socket_.get(), buffer_.data() + used, read_chunk, MSG_DONTWAIT);
    const int number = errno;
    buffer_.resize(used + (count > 0 ? static_cast<std::size_t>(count) : 0));
    if (count == 0) return false;
    if (count < 0) {
      if (number == EINTR) continue;
      return number == EAGAIN || number == EWOULDBLOCK;
    }
    if (static_cast<std::size_t>(count) < read_chunk) return true;
  }
}

std::optional<Packet> ControlChannel::next() {
  const std::size_t available = buffer_.size() - begin_;
  if (available < header_bytes) return std::nullopt;
  const std::size_t length = decode_length(buffer_.data() + begin_);
  if (length > longest_packet) {
    throw EnvironmentError(
        fmt::format("control channel: a message of {} bytes was announced, at most {} are sent",
                    length, longest_packet));
  }
  if (available < header_bytes + length) return std::nullopt;
  const auto first = buffer_.begin() + static_cast<std::ptrdiff_t>(begin_ + header_bytes);
  Packet packet(first, first + static_cast<std::ptrdiff_t>(length));
  begin_ += header_bytes + length;
  if (begin_ == buffer_.size()) {
    buffer_.clear();
    begin_ = 0;
  }
  return packet;
}

std::optional<Packet> ControlChannel::receive(std::optional<std::chrono::milliseconds> deadline) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  while (true) {
    if (auto packet = next()) return packet;
    int left = -1;
    if (deadline) {
      const auto waited =
          std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start);
      if (waited >= *deadline) return std::nullopt;
      left = static_cast<int>((*deadline - waited).count());
    }
    if (wait_for(socket_.get(), POLLIN, left) && !fill()) return next();
  }
}

std::pair<FileDescriptor, FileDescriptor> socket_pair() {
  std::array<int, 2> ends{-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    throw_system_error("making the control channel of a worker");
  }
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

}  // namespace cgconform::harness

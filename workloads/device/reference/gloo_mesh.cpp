#include "workloads/device/reference/gloo_mesh.hpp"

#include <algorithm>
#include <cstring>
#include <exception>
#include <utility>

#include <fmt/format.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>

#include "workloads/device/errors.hpp"
#include "workloads/device/reference/pipe_signal.hpp"

namespace cgconform::workloads::reference {
namespace {

/// Messages up to this size, header included, travel in one piece.
constexpr std::size_t frame_bytes = 4096;
constexpr std::uint64_t frame_slot = 1;
constexpr std::uint64_t rest_slot = 2;
/// Sends that may be under way to one peer before the next one waits for the oldest.
constexpr std::size_t most_outgoing = 64;
/// Receivers wait for as long as the communicator lives; they are woken to end.
constexpr std::chrono::milliseconds without_end = std::chrono::hours(24 * 365);

/// Gives Gloo's rendezvous the gang's store, each key under the communicator's name.
class StoreAdaptor : public gloo::rendezvous::Store {
 public:
  StoreAdaptor(RendezvousStore& store, std::string prefix, std::chrono::milliseconds timeout)
      : store_(store), prefix_(std::move(prefix)), timeout_(timeout) {}

  void set(const std::string& key, const std::vector<char>& data) override {
    store_.set(prefix_ + key, std::string(data.begin(), data.end()));
  }
  std::vector<char> get(const std::string& key) override {
    const std::string value = store_.get(prefix_ + key, timeout_);
    return {value.begin(), value.end()};
  }
  void wait(const std::vector<std::string>& keys) override {
    for (const std::string& key : keys) store_.get(prefix_ + key, timeout_);
  }
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds&) override {
    wait(keys);
  }

 private:
  RendezvousStore& store_;
  std::string prefix_;
  std::chrono::milliseconds timeout_;
};

}  // namespace

std::shared_ptr<gloo::transport::Device> create_gloo_device(const std::string& network_interface) {
  gloo::transport::tcp::attr attributes;
  if (network_interface.empty()) {
    attributes.hostname = "127.0.0.1";
  } else {
    attributes.iface = network_interface;
  }
  const PipeSignalBlock no_pipe_signal;
  try {
    return gloo::transport::tcp::CreateDevice(attributes);
  } catch (const std::exception& error) {
    throw DeviceError(
        ErrorCategory::communicator_error, "create communicator",
        fmt::format("cannot listen on {}: {}",
                    network_interface.empty() ? "the loopback" : network_interface, error.what()));
  }
}

namespace {

/// A wait on a Gloo buffer that another thread can end, now and for good.
class EndableWait {
 public:
  using Buffer = gloo::transport::UnboundBuffer;
  EndableWait(bool (*wait)(Buffer&, std::chrono::milliseconds), void (*abort)(Buffer&))
      : wait_(wait), abort_(abort) {}

  /// True where the operation completed, false where the waits were ended. Throws what Gloo throws.
  bool operator()(Buffer& buffer, std::chrono::milliseconds timeout) {
    {
      const std::lock_guard lock(mutex_);
      if (ended_) return false;
      waiting_ = &buffer;
    }
    bool completed = false;
    std::exception_ptr failure;
    try {
      completed = wait_(buffer, timeout);
    } catch (...) {
      failure = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    waiting_ = nullptr;  // the buffer may go now, also where the wait failed
    if (failure) std::rethrow_exception(failure);
    return completed && !ended_;
  }

  void end() {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    if (waiting_ != nullptr) abort_(*waiting_);
  }

 private:
  bool (*wait_)(Buffer&, std::chrono::milliseconds);
  void (*abort_)(Buffer&);
  std::mutex mutex_;
  Buffer* waiting_ = nullptr;
  bool ended_ = false;
};

}  // namespace

struct GlooMesh::Peer {
  using Buffer = gloo::transport::UnboundBuffer;
  using Milliseconds = std::chrono::milliseconds;

  int rank = 0;
  std::mutex send_mutex;
  std::deque<Outgoing> outgoing;
  EndableWait wait_for_send{
      [](Buffer& buffer, Milliseconds timeout) { return buffer.waitSend(nullptr, timeout); },
      [](Buffer& buffer) { buffer.abortWaitSend(); }};
  EndableWait wait_for_receive{
      [](Buffer& buffer, Milliseconds timeout) { return buffer.waitRecv(nullptr, timeout); },
      [](Buffer& buffer) { buffer.abortWaitRecv(); }};
  std::thread receiver;
};

GlooMesh::GlooMesh(const CommunicatorOptions& options,
                   std::shared_ptr<gloo::transport::Device> device, Mailbox& mailbox)
    : rank_(options.rank), timeout_(options.timeout), mailbox_(mailbox) {
  const PipeSignalBlock no_pipe_signal;
  StoreAdaptor store(*options.store, "communicator/" + options.name + "/", options.timeout);
  auto context = std::make_shared<gloo::rendezvous::Context>(options.rank, options.size);
  // Gloo lets a connection take five times its timeout.
  context->setTimeout(std::max(options.timeout / 5, std::chrono::milliseconds(1)));
  try {
    context->connectFullMesh(store, device);
  } catch (const gloo::Exception& error) {
    throw DeviceError(ErrorCategory::communicator_error, "create communicator",
                      fmt::format("'{}' rank {} of {} cannot reach the others: {}", options.name,
                                  options.rank, options.size, error.what()));
  }
  context_ = std::move(context);
  for (int rank = 0; rank < options.size; ++rank) {
    peers_.push_back(rank == rank_ ? nullptr : std::make_unique<Peer>());
    if (rank == rank_) continue;
    Peer& peer = *peers_.back();
    peer.rank = rank;
    peer.receiver = std::thread([this, &peer] { receive_from(peer); });
  }
}

GlooMesh::~GlooMesh() {
  close();
}

void GlooMesh::receive_from(Peer& peer) {
  try {
    std::vector<std::byte> frame(frame_bytes);
    const auto buffer = context_->createUnboundBuffer(frame.data(), frame.size());
    buffer->recv(peer.rank, frame_slot);
    while (peer.wait_for_receive(*buffer, without_end)) {
      Message message;
      std::memcpy(&message.header, frame.data(), sizeof(message.header));
      if (message.header.magic != MessageHeader{}.magic) {
        throw gloo::IoException("received bytes that are no message of this program");
      }
      // Before the next receive, which speaks to the peer and fails where it has closed its end.
      const bool goodbye = message.header.kind == MessageKind::goodbye;
      if (goodbye) mailbox_.mark_left(peer.rank);
      message.payload.resize(message.header.bytes);
      const std::size_t inside =
          std::min(message.payload.size(), frame_bytes - sizeof(message.header));
      if (inside > 0) {
        std::memcpy(message.payload.data(), frame.data() + sizeof(message.header), inside);
      }
      buffer->recv(peer.rank, frame_slot);
      if (inside < message.payload.size()) {
        const auto rest = context_->createUnboundBuffer(message.payload.data() + inside,
                                                        message.payload.size() - inside);
        rest->recv(peer.rank, rest_slot);
        if (!peer.wait_for_receive(*rest, without_end)) return;
      }
      if (!goodbye) mailbox_.put(peer.rank, std::move(message));
    }
  } catch (const std::exception& error) {
    mailbox_.mark_lost(peer.rank, error.what());
    // Gloo does not tell every send under way that the connection broke.
    peer.wait_for_send.end();
  }
}

void GlooMesh::wait_for_oldest(Peer& peer) {
  if (!peer.wait_for_send(*peer.outgoing.front().buffer, timeout_)) {
    throw gloo::IoException("the connection was closed");
  }
  peer.outgoing.pop_front();
}

void GlooMesh::post(Peer& peer, std::uint64_t slot, std::vector<std::byte> bytes) {
  while (peer.outgoing.size() >= most_outgoing) wait_for_oldest(peer);
  Outgoing& outgoing = peer.outgoing.emplace_back();
  outgoing.bytes = std::move(bytes);
  outgoing.buffer = context_->createUnboundBuffer(outgoing.bytes.data(), outgoing.bytes.size());
  outgoing.buffer->send(peer.rank, slot);
}

void GlooMesh::send(int rank, const MessageHeader& header, const void* payload) {
  Peer& peer = *peers_.at(static_cast<std::size_t>(rank));
  const auto* bytes = static_cast<const std::byte*>(payload);
  const std::size_t size = header.bytes;
  const std::size_t inside = std::min(size, frame_bytes - sizeof(header));
  std::vector<std::byte> frame(sizeof(header) + inside);
  std::memcpy(frame.data(), &header, sizeof(header));
  if (inside > 0) std::memcpy(frame.data() + sizeof(header), bytes, inside);
  const PipeSignalBlock no_pipe_signal;
  const std::lock_guard lock(peer.send_mutex);
  try {
    post(peer, frame_slot, std::move(frame));
    if (inside < size) post(peer, rest_slot, {bytes + inside, bytes + size});
  } catch (const gloo::Exception& error) {
    mailbox_.mark_lost(rank, error.what());
    throw DeviceError(ErrorCategory::communicator_error, "communicator",
                      fmt::format("rank {} was lost while {} was sent to it: {}", rank,
                                  describe(header), error.what()));
  }
}

void GlooMesh::close() {
  if (std::exchange(closed_, true)) return;
  const PipeSignalBlock no_pipe_signal;
  for (const auto& peer : peers_) {
    if (peer == nullptr) continue;
    try {
      send(peer->rank, {.kind = MessageKind::goodbye}, nullptr);
      const std::lock_guard lock(peer->send_mutex);
      while (!peer->outgoing.empty()) wait_for_oldest(*peer);
    } catch (const std::exception&) {
      // The peer is gone already: nothing is left to tell it.
    }
  }
  for (const auto& peer : peers_) {
    if (peer == nullptr) continue;
    peer->wait_for_receive.end();
    peer->receiver.join();
  }
  context_->closeConnections();
}

}  // namespace cgconform::workloads::reference

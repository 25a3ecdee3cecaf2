#include "workloads/device/reference/mailbox.hpp"

#include <utility>

#include <fmt/format.h>

#include "workloads/device/errors.hpp"

namespace cgconform::workloads::reference {
namespace {

template <typename Queue>
Message pop(Queue& queue) {
  Message message = std::move(queue.front());
  queue.pop_front();
  return message;
}

}  // namespace

Mailbox::Mailbox(int ranks, std::function<void()> arrived)
    : peers_(static_cast<std::size_t>(ranks)), arrived_(std::move(arrived)) {}

void Mailbox::put(int peer, Message message) {
  {
    const std::lock_guard lock(mutex_);
    Peer& state = peers_.at(static_cast<std::size_t>(peer));
    auto& queue = message.header.kind == MessageKind::exchange ? state.exchange : state.device;
    queue.push_back(std::move(message));
  }
  changed_.notify_all();
  arrived_();
}

void Mailbox::mark_lost(int peer, const std::string& reason) {
  {
    const std::lock_guard lock(mutex_);
    Peer& state = peers_.at(static_cast<std::size_t>(peer));
    if (state.gone) return;
    state.gone = fmt::format("rank {} was lost: {}", peer, reason);
    if (!first_loss_) first_loss_ = state.gone;
  }
  changed_.notify_all();
  arrived_();
}

void Mailbox::mark_left(int peer) {
  {
    const std::lock_guard lock(mutex_);
    Peer& state = peers_.at(static_cast<std::size_t>(peer));
    if (state.gone) return;
    state.gone = fmt::format("rank {} closed the communicator", peer);
  }
  changed_.notify_all();
  arrived_();
}

void Mailbox::throw_gone(int, const Peer& state) {
  throw DeviceError(ErrorCategory::communicator_error, "communicator",
                    fmt::format("{}; see that rank's log for the first cause", *state.gone));
}

std::optional<Message> Mailbox::take(int peer) {
  const std::lock_guard lock(mutex_);
  Peer& state = peers_.at(static_cast<std::size_t>(peer));
  if (!state.device.empty()) return pop(state.device);
  if (state.gone) throw_gone(peer, state);
  return std::nullopt;
}

Message Mailbox::wait_for_exchange(int peer, std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  Peer& state = peers_.at(static_cast<std::size_t>(peer));
  const bool ready =
      changed_.wait_until(lock, deadline, [&] { return !state.exchange.empty() || state.gone; });
  if (!state.exchange.empty()) return pop(state.exchange);
  if (state.gone) throw_gone(peer, state);
  static_cast<void>(ready);
  throw DeviceError(ErrorCategory::communicator_timeout, "communicator exchange",
                    fmt::format("rank {} did not answer in time; see what it is doing", peer));
}

std::optional<std::string> Mailbox::first_loss() const {
  const std::lock_guard lock(mutex_);
  return first_loss_;
}

}  // namespace cgconform::workloads::reference

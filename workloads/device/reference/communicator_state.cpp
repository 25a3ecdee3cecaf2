#include "workloads/device/reference/communicator_state.hpp"

#include <utility>

#include <fmt/format.h>

#include "workloads/device/errors.hpp"

namespace cgconform::workloads::reference {

MessageNumbers::MessageNumbers(int ranks) : ranks_(static_cast<std::size_t>(ranks)) {}

MessageNumbers::Counts& MessageNumbers::counts(std::uint64_t capture) {
  // Captures that are open at the same time are few; entry 0, the first, counts the eager calls.
  constexpr std::size_t most_captures = 16;
  const auto [entry, is_new] = by_capture_.try_emplace(capture);
  if (is_new) {
    entry->second.sent.resize(ranks_);
    entry->second.received.resize(ranks_);
    if (by_capture_.size() > most_captures) by_capture_.erase(by_capture_.upper_bound(0));
  }
  return by_capture_.at(capture);
}

std::uint64_t MessageNumbers::next_sent(std::uint64_t capture, int peer) {
  return counts(capture).sent[static_cast<std::size_t>(peer)]++;
}

std::uint64_t MessageNumbers::next_received(std::uint64_t capture, int peer) {
  return counts(capture).received[static_cast<std::size_t>(peer)]++;
}

CommunicatorState::CommunicatorState(const CommunicatorOptions& options,
                                     std::shared_ptr<gloo::transport::Device> transport,
                                     std::function<void()> arrived)
    : name_(options.name),
      rank_(options.rank),
      size_(options.size),
      timeout_(options.timeout),
      mailbox_(options.size, std::move(arrived)) {
  if (size_ > 1) mesh_ = std::make_unique<GlooMesh>(options, std::move(transport), mailbox_);
}

void CommunicatorState::add_graph_reference() {
  const std::lock_guard lock(mutex_);
  ++graph_references_;
}

void CommunicatorState::drop_graph_reference() {
  const std::lock_guard lock(mutex_);
  if (--graph_references_ == 0) dropped_.notify_all();
}

int CommunicatorState::graph_references() const {
  const std::lock_guard lock(mutex_);
  return graph_references_;
}

void CommunicatorState::require_open(std::string_view call) const {
  const std::lock_guard lock(mutex_);
  if (open_) return;
  throw DeviceError(
      ErrorCategory::communicator_invalid_usage, std::string(call),
      fmt::format("communicator '{}' was closed; capture anew with a new one", name_));
}

void CommunicatorState::send(int peer, const MessageHeader& header, const void* payload) {
  try {
    mesh_->send(peer, header, payload);
  } catch (const DeviceError& error) {
    note_error(error.category());
    throw;
  }
}

std::optional<Message> CommunicatorState::take(int peer, const MessageHeader& expected,
                                               std::string_view label) {
  try {
    auto message = mailbox_.take(peer);
    if (message && message->header != expected) {
      throw DeviceError(
          ErrorCategory::communicator_mismatch, std::string(label),
          fmt::format("rank {} of '{}' expects {} from rank {}, which sent {}; all "
                      "ranks must make the same calls in the same order",
                      rank_, name_, describe(expected), peer, describe(message->header)));
    }
    return message;
  } catch (const DeviceError& error) {
    note_error(error.category());
    throw;
  }
}

Message CommunicatorState::exchange_with(int peer, std::chrono::steady_clock::time_point deadline) {
  return mailbox_.wait_for_exchange(peer, deadline);
}

ErrorCategory CommunicatorState::async_error() const {
  const ErrorCategory noted = error_.load();
  if (noted != ErrorCategory::success) return noted;
  return mailbox_.first_loss() ? ErrorCategory::communicator_error : ErrorCategory::success;
}

void CommunicatorState::note_error(ErrorCategory category) {
  ErrorCategory none = ErrorCategory::success;
  error_.compare_exchange_strong(none, category);
}

bool CommunicatorState::close() {
  bool unused = false;
  {
    std::unique_lock lock(mutex_);
    if (!open_) return true;
    unused = dropped_.wait_for(lock, timeout_, [&] { return graph_references_ == 0; });
    open_ = false;
  }
  if (mesh_ != nullptr) mesh_->close();
  return unused;
}

void CommunicatorState::close_when_unused() {
  {
    std::unique_lock lock(mutex_);
    dropped_.wait(lock, [&] { return graph_references_ == 0; });
  }
  close();
}

}  // namespace cgconform::workloads::reference

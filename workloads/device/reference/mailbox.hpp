#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "workloads/device/reference/message.hpp"

namespace cgconform::workloads::reference {

/// Messages that arrived from each peer and were not taken yet, in the order they were sent. Those
/// of the host's exchanges are kept apart from those of device work. Thread-safe.
class Mailbox {
 public:
  /// `arrived` is called, without a lock, after every change.
  Mailbox(int ranks, std::function<void()> arrived);

  void put(int peer, Message message);
  /// No more messages come from the peer; the first reason is kept.
  void mark_lost(int peer, const std::string& reason);
  /// As above, by the peer's own will.
  void mark_left(int peer);

  /// The oldest device message of the peer, if one is there. Throws communicator_error where none
  /// is and none will come.
  std::optional<Message> take(int peer);
  /// Waits for the oldest exchange message of the peer. Throws communicator_error or, past the
  /// deadline, communicator_timeout.
  Message wait_for_exchange(int peer, std::chrono::steady_clock::time_point deadline);
  /// Reason of the first peer that was lost.
  std::optional<std::string> first_loss() const;

 private:
  struct Peer {
    std::deque<Message> device;
    std::deque<Message> exchange;
    std::optional<std::string> gone;
  };
  [[noreturn]] static void throw_gone(int peer, const Peer& state);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Peer> peers_;
  std::optional<std::string> first_loss_;
  std::function<void()> arrived_;
};

}  // namespace cgconform::workloads::reference

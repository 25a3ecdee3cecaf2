#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "harness/file_descriptor.hpp"
#include "workloads/device/progress.hpp"

namespace cgconform::harness {

/// The stack of one thread as raw return addresses, innermost first.
struct StackSlot {
  static constexpr std::size_t most_frames = 96;
  std::atomic<std::uint32_t> complete;
  std::atomic<std::int32_t> thread;
  std::atomic<std::uint32_t> frame_count;
  std::array<std::atomic<std::uint64_t>, most_frames> frames;
};

/// What a fatal signal left behind.
struct CrashSlot {
  std::atomic<std::uint32_t> claimed;  ///< the first thread that crashes writes, others wait
  std::atomic<std::int32_t> signal;    ///< 0 while there was none
  std::atomic<std::int32_t> code;
  std::atomic<std::uint64_t> fault_address;
  StackSlot stack;
};

/// The mapped file. Only lock-free atomics, so that the supervisor can read it at any moment of the
/// worker's life and after its death. A new file is all zeros, which is a valid empty board.
struct BoardLayout {
  static constexpr std::size_t operation_words = 20;  ///< of 8 bytes
  static constexpr std::size_t most_threads = 24;
  static constexpr std::size_t map_bytes = std::size_t{128} * 1024;

  /// Twice the labels written, plus one while another is: the last whole label stands in slot
  /// (sequence / 2) % 2, so that a writer that stops half-way leaves it intact.
  std::atomic<std::uint64_t> sequence;
  std::atomic<std::uint64_t> operations;
  std::array<std::array<std::atomic<std::uint64_t>, operation_words>, 2> operation;
  std::atomic<std::int32_t> process;  ///< the worker's own, which a wrapper started; 0 before
  std::atomic<std::uint32_t> phase;
  std::atomic<std::int64_t> phase_started;  ///< nanoseconds of CLOCK_MONOTONIC
  std::atomic<std::uint64_t> arena_begin;
  std::atomic<std::uint64_t> arena_end;
  CrashSlot crash;
  std::atomic<std::uint32_t> stacks_claimed;
  std::array<StackSlot, most_threads> stacks;
  std::atomic<std::uint32_t> map_claimed;
  std::atomic<std::uint32_t> map_length;
  std::array<char, map_bytes> map;  ///< lines of /proc/self/maps that name a file
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
static_assert(std::atomic<std::int64_t>::is_always_lock_free);

/// A shared mapping of a board. The file has no name, so nothing is left when both sides are gone.
class BoardMapping {
 public:
  /// Makes a new, empty board file.
  static BoardMapping create();
  /// Maps the board behind an inherited descriptor.
  explicit BoardMapping(FileDescriptor file);
  ~BoardMapping();
  BoardMapping(BoardMapping&& other) noexcept;
  BoardMapping& operator=(BoardMapping&& other) noexcept;
  BoardMapping(const BoardMapping&) = delete;
  BoardMapping& operator=(const BoardMapping&) = delete;

  int descriptor() const { return file_.get(); }
  BoardLayout& layout() const { return *layout_; }

 private:
  FileDescriptor file_;
  BoardLayout* layout_ = nullptr;
};

/// The worker's side: says what is being done.
class ProgressBoard final : public workloads::ProgressSink {
 public:
  explicit ProgressBoard(BoardLayout& layout) : layout_(layout) {}
  void enter_phase(workloads::Phase phase) override;
  void start_operation(std::string_view label) override;
  /// Addresses of device memory, for the judgement of a wild access.
  void set_arena(const void* begin, const void* end);

 private:
  BoardLayout& layout_;
};

/// What the supervisor sees at one moment.
struct ProgressSnapshot {
  workloads::Phase phase = workloads::Phase::idle;
  std::chrono::nanoseconds phase_started{0};  ///< CLOCK_MONOTONIC
  std::uint64_t operations = 0;
  std::string last_operation;
};
ProgressSnapshot read_progress(const BoardLayout& layout);

/// CLOCK_MONOTONIC, comparable between the processes of a host.
std::chrono::nanoseconds monotonic_now();

}  // namespace cgconform::harness

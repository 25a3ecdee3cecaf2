#include "harness/progress_board.hpp"

#include <algorithm>
#include <cstring>
#include <ctime>
#include <utility>

#include <sys/mman.h>

#include "harness/system_error.hpp"

namespace cgconform::harness {
namespace {

constexpr int most_read_attempts = 1000;
constexpr std::size_t word_bytes = sizeof(std::uint64_t);
using OperationText = std::array<char, BoardLayout::operation_words * word_bytes>;

BoardLayout* map_board(int descriptor) {
  void* address =
      ::mmap(nullptr, sizeof(BoardLayout), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (address == MAP_FAILED) throw_system_error("mapping the progress board");
  return static_cast<BoardLayout*>(address);
}

}  // namespace

BoardMapping BoardMapping::create() {
  FileDescriptor file(::memfd_create("cgconform-progress", MFD_CLOEXEC));
  if (!file.is_open()) throw_system_error("making the progress board");
  if (::ftruncate(file.get(), sizeof(BoardLayout)) != 0) {
    throw_system_error("sizing the progress board");
  }
  return BoardMapping(std::move(file));
}

BoardMapping::BoardMapping(FileDescriptor file)
    : file_(std::move(file)), layout_(map_board(file_.get())) {}

BoardMapping::~BoardMapping() {
  if (layout_ != nullptr) ::munmap(layout_, sizeof(BoardLayout));
}

BoardMapping::BoardMapping(BoardMapping&& other) noexcept
    : file_(std::move(other.file_)), layout_(std::exchange(other.layout_, nullptr)) {}

BoardMapping& BoardMapping::operator=(BoardMapping&& other) noexcept {
  std::swap(file_, other.file_);
  std::swap(layout_, other.layout_);
  return *this;
}

void ProgressBoard::enter_phase(workloads::Phase phase) {
  layout_.phase_started.store(monotonic_now().count(), std::memory_order_relaxed);
  layout_.phase.store(static_cast<std::uint32_t>(phase), std::memory_order_release);
}

void ProgressBoard::start_operation(std::string_view label) {
  layout_.operations.fetch_add(1, std::memory_order_relaxed);
  std::uint64_t sequence = layout_.sequence.load(std::memory_order_relaxed);
  // Where another thread writes at this moment, its label stands for both.
  if (sequence % 2 != 0 || !layout_.sequence.compare_exchange_strong(sequence, sequence + 1,
                                                                     std::memory_order_acquire)) {
    return;
  }
  OperationText text{};
  std::copy_n(label.data(), std::min(label.size(), text.size() - 1), text.data());
  std::atomic_thread_fence(std::memory_order_release);
  auto& slot = layout_.operation.at((sequence / 2 + 1) % 2);
  for (std::size_t i = 0; i < BoardLayout::operation_words; ++i) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data() + i * word_bytes, word_bytes);
    slot.at(i).store(word, std::memory_order_relaxed);
  }
  layout_.sequence.store(sequence + 2, std::memory_order_release);
}

void ProgressBoard::set_arena(const void* begin, const void* end) {
  layout_.arena_begin.store(reinterpret_cast<std::uintptr_t>(begin), std::memory_order_relaxed);
  layout_.arena_end.store(reinterpret_cast<std::uintptr_t>(end), std::memory_order_relaxed);
}

ProgressSnapshot read_progress(const BoardLayout& layout) {
  ProgressSnapshot snapshot;
  const std::uint32_t phase = layout.phase.load(std::memory_order_acquire);
  snapshot.phase = static_cast<workloads::Phase>(
      std::min(phase, static_cast<std::uint32_t>(workloads::Phase::teardown)));
  snapshot.phase_started =
      std::chrono::nanoseconds{layout.phase_started.load(std::memory_order_relaxed)};
  snapshot.operations = layout.operations.load(std::memory_order_relaxed);
  OperationText text{};
  for (int attempt = 0; attempt < most_read_attempts; ++attempt) {
    const std::uint64_t before = layout.sequence.load(std::memory_order_acquire);
    const auto& slot = layout.operation.at(before / 2 % 2);
    for (std::size_t i = 0; i < BoardLayout::operation_words; ++i) {
      const std::uint64_t word = slot.at(i).load(std::memory_order_relaxed);
      std::memcpy(text.data() + i * word_bytes, &word, word_bytes);
    }
    std::atomic_thread_fence(std::memory_order_acquire);
    // The slot is written again only after the next whole label.
    if (layout.sequence.load(std::memory_order_relaxed) <= before / 2 * 2 + 2) break;
  }
  text.back() = '\0';
  snapshot.last_operation = text.data();
  // A torn label may hold anything, and reports are UTF-8.
  for (char& letter : snapshot.last_operation) {
    if (letter < ' ' || letter > '~') letter = '?';
  }
  return snapshot;
}

std::chrono::nanoseconds monotonic_now() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return std::chrono::seconds{now.tv_sec} + std::chrono::nanoseconds{now.tv_nsec};
}

}  // namespace cgconform::harness

#include "harness/crash_record.hpp"

#include <algorithm>
#include <csignal>
#include <cstring>

#include <fmt/format.h>

#include "harness/stack_symbols.hpp"

namespace cgconform::harness {
namespace {

using suites::AbnormalEnd;
using suites::Verdict;
using workloads::Phase;

std::vector<std::uint64_t> addresses_of(const StackSlot& slot) {
  const std::size_t count = std::min<std::size_t>(slot.frame_count.load(std::memory_order_acquire),
                                                  StackSlot::most_frames);
  std::vector<std::uint64_t> addresses;
  addresses.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    addresses.push_back(slot.frames.at(i).load(std::memory_order_relaxed));
  }
  return addresses;
}

std::string map_text(const BoardLayout& board) {
  const std::size_t length = std::min<std::size_t>(board.map_length.load(std::memory_order_acquire),
                                                   BoardLayout::map_bytes);
  return {board.map.data(), length};
}

AbnormalEnd describe_progress(const BoardLayout& board) {
  const ProgressSnapshot progress = read_progress(board);
  AbnormalEnd end;
  end.phase = workloads::phase_name(progress.phase);
  end.last_operation = progress.last_operation;
  return end;
}

bool in_teardown(const BoardLayout& board) {
  return read_progress(board).phase == Phase::teardown;
}

bool is_memory_fault(int signal) {
  return signal == SIGSEGV || signal == SIGBUS;
}

}  // namespace

std::string signal_name(int signal) {
  const char* abbreviation = ::sigabbrev_np(signal);
  if (abbreviation == nullptr) return fmt::format("signal {}", signal);
  return fmt::format("SIG{}", abbreviation);
}

std::vector<std::string> symbolise(const std::vector<std::uint64_t>& addresses,
                                   const std::string& map) {
  const StackSymbols symbols(map);
  std::vector<std::string> lines;
  lines.reserve(addresses.size());
  for (const std::uint64_t address : addresses) lines.push_back(symbols.describe(address));
  return lines;
}

AbnormalEnd describe_crash(const BoardLayout& board, const ProcessEnd& end) {
  AbnormalEnd abnormal = describe_progress(board);
  abnormal.signal = end.signal;
  abnormal.exit_code = end.exit_code;
  abnormal.verdict = Verdict::crash;
  const int recorded = board.crash.signal.load(std::memory_order_acquire);
  if (recorded != 0) {
    abnormal.stack = symbolise(addresses_of(board.crash.stack), map_text(board));
    const std::uint64_t address = board.crash.fault_address.load(std::memory_order_relaxed);
    if (is_memory_fault(recorded) && address >= board.arena_begin.load(std::memory_order_relaxed) &&
        address < board.arena_end.load(std::memory_order_relaxed)) {
      abnormal.verdict = Verdict::fail_illegal_access;
    }
  }
  if (abnormal.verdict == Verdict::crash && in_teardown(board)) {
    abnormal.verdict = Verdict::fail_teardown;
  }
  return abnormal;
}

AbnormalEnd describe_hang(const BoardLayout& board) {
  AbnormalEnd abnormal = describe_progress(board);
  abnormal.verdict = in_teardown(board) ? Verdict::fail_teardown : Verdict::hang;
  const std::size_t stacks = std::min<std::size_t>(
      board.stacks_claimed.load(std::memory_order_acquire), BoardLayout::most_threads);
  const StackSymbols symbols(map_text(board));
  for (std::size_t i = 0; i < stacks; ++i) {
    const StackSlot& slot = board.stacks.at(i);
    if (stacks > 1) abnormal.stack.push_back(fmt::format("thread {}:", slot.thread.load()));
    for (const std::uint64_t address : addresses_of(slot)) {
      abnormal.stack.push_back(symbols.describe(address));
    }
  }
  return abnormal;
}

bool stacks_complete(const BoardLayout& board, std::size_t threads) {
  const std::size_t wanted = std::min(threads, BoardLayout::most_threads);
  std::size_t complete = 0;
  for (const StackSlot& slot : board.stacks) {
    if (slot.complete.load(std::memory_order_acquire) != 0) ++complete;
  }
  return complete >= wanted;
}

}  // namespace cgconform::harness

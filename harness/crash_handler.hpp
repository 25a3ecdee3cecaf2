#pragma once

#include <csignal>
#include <cstddef>
#include <memory>

#include "harness/progress_board.hpp"

namespace cgconform::harness {

/// The signal that asks every thread of a worker to write its stack into the board.
int stack_dump_signal();

/// Writes into the board what a fatal signal was, where, and the raw stack; then lets the signal
/// end the process. Also answers `stack_dump_signal`. Every function that runs in a handler is
/// async-signal-safe: no locks, no allocation; the unwinder was loaded before, and finds its tables
/// without a lock (glibc 2.35, GCC 12). One at a time in a process.
class CrashHandler {
 public:
  explicit CrashHandler(BoardLayout& board);
  ~CrashHandler();
  CrashHandler(const CrashHandler&) = delete;
  CrashHandler& operator=(const CrashHandler&) = delete;
  CrashHandler(CrashHandler&&) = delete;
  CrashHandler& operator=(CrashHandler&&) = delete;

 private:
  std::unique_ptr<std::byte[]> alternate_stack_;
};

}  // namespace cgconform::harness

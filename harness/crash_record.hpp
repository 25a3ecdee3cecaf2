#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "harness/progress_board.hpp"
#include "suites/result_record.hpp"

namespace cgconform::harness {

/// How a worker's process ended, from the system.
struct ProcessEnd {
  int signal = 0;  ///< that ended it; 0 where it exited
  int exit_code = 0;
};

/// "SIGSEGV" for 11.
std::string signal_name(int signal);

/// Lines "function (file:line) in module" of a stack, innermost first; the address alone where
/// nothing is known about it. `map` holds lines in the format of /proc/PID/maps.
std::vector<std::string> symbolise(const std::vector<std::uint64_t>& addresses,
                                   const std::string& map);

/// What a rank was doing when its worker died: phase and last operation, the signal and the stack
/// that its handler left. A wild access inside device memory is FAIL_ILLEGAL_ACCESS, any end while
/// tearing down FAIL_TEARDOWN, every other CRASH.
suites::AbnormalEnd describe_crash(const BoardLayout& board, const ProcessEnd& end);

/// The same for a worker that missed a deadline, from the stacks its threads were asked for:
/// FAIL_TEARDOWN while tearing down, else HANG.
suites::AbnormalEnd describe_hang(const BoardLayout& board);

/// True once every one of `threads` has written its stack.
bool stacks_complete(const BoardLayout& board, std::size_t threads);

}  // namespace cgconform::harness

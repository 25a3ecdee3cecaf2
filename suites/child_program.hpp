#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace cgconform::suites {

/// How a child process ended.
enum class ChildEnd : std::uint8_t {
  exited,   ///< by itself, with code 0
  failed,   ///< by itself, with another code or by a signal
  hung,     ///< it announced its dangerous part and was ended at the deadline
  no_start  ///< it never came to its dangerous part
};
std::string_view child_end_name(ChildEnd end);

struct ChildOutcome {
  ChildEnd end = ChildEnd::no_start;
  double seconds = 0.0;  ///< from the announcement to the end
  std::string output;    ///< what it wrote
};

/// A program from the table of child programs, on so many processes that form one communicator.
struct ChildRequest {
  std::string_view program;
  int ranks = 1;
  std::chrono::milliseconds deadline{1000};  ///< for the dangerous part
};

/// Runs the requested programs side by side, each in processes of its own, and ends them at their
/// deadlines. The outcome of a program is that of its worst rank.
using ChildStarter =
    std::function<std::vector<ChildOutcome>(const std::vector<ChildRequest>& requests)>;

}  // namespace cgconform::suites

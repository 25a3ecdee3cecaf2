#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace cgconform::harness {

/// What a child program's process is told on its command line.
struct ChildArguments {
  std::string program;
  std::string device;
  int rank = 0;
  int ranks = 1;
  std::string store_directory;      ///< of the files by which the ranks find each other
  std::vector<std::string> faults;  ///< ids
};

/// The command line of a child, after the name of the program file.
std::vector<std::string> child_command_line(const ChildArguments& arguments);
/// Nothing where the command line is none of a child. Throws InputError where it is a broken one.
std::optional<ChildArguments> child_arguments(std::span<char* const> command_line);

/// What a child writes to its output when the part begins that may never end.
inline constexpr const char* child_announcement = "begins\n";

/// Runs a child program on a device of its own, and returns the exit code. It ends with the process
/// that started it.
int run_child_program(const ChildArguments& arguments);

}  // namespace cgconform::harness

#pragma once

#include <optional>
#include <string>

#include "harness/run_options.hpp"

namespace cgconform::harness {

/// What one invocation of cgconform is to do.
enum class Action : std::uint8_t {
  finished,  ///< a subcommand or --help did its work: `exit_code` stands
  run,
  list,       ///< --list
  list_json,  ///< --list=json
  dry_run,    ///< --dry-run
};

struct CommandLine {
  Action action = Action::run;
  RunOptions options;
  int exit_code = 0;
};

/// Parses and checks the arguments; runs subcommands, which never touch MPI. Throws InputError
/// naming the option, the reason and the nearest valid choice.
CommandLine parse_command_line(int argc, const char* const* argv);

/// True where the arguments ask for something that never touches MPI, also where they are wrong.
bool never_uses_mpi(int argc, const char* const* argv);

}  // namespace cgconform::harness

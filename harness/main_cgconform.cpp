#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

#include <fmt/format.h>
#include <unistd.h>

#include "harness/command_line.hpp"
#include "harness/exit_codes.hpp"
#include "harness/fingerprint.hpp"
#include "harness/launcher.hpp"
#include "harness/list_command.hpp"
#include "harness/matrix_source.hpp"
#include "harness/mpi/mpi_transport.hpp"
#include "harness/rank_agreement.hpp"
#include "harness/rank_loop.hpp"
#include "harness/resume.hpp"
#include "harness/run_plan.hpp"
#include "harness/system_error.hpp"
#include "matrix/error.hpp"

namespace cgconform::harness {
namespace {

/// Ranks that cannot agree any more get this long before the kernel ends them.
constexpr unsigned last_seconds = 20;

void complain(const std::string& message) {
  std::fputs(fmt::format("cgconform: {}\n", message).c_str(), stderr);
}

/// The exit code of the exception in flight; `message` gets its text.
ExitCode describe_exception(std::string& message) {
  try {
    throw;
  } catch (const InputError& error) {
    message = error.what();
    return ExitCode::unusable_input;
  } catch (const EnvironmentError& error) {
    message = error.what();
    return ExitCode::environment;
  } catch (const std::exception& error) {
    message = fmt::format("internal error: {}", error.what());
    return ExitCode::internal_error;
  }
}

/// The options that rank 0 plans with: of a run that goes on, what its journal has. The others need
/// not see the journal.
RunOptions planning_options(const RunOptions& typed, int rank) {
  if (rank != 0 || typed.resume.empty() || !typed.startup_error.empty()) return typed;
  try {
    return resumed_options(typed);
  } catch (const InputError& error) {
    RunOptions refused = typed;
    refused.startup_error = error.what();
    return refused;
  }
}

int run_with(Transport& transport, const RunOptions& typed) {
  const RunOptions options = planning_options(typed, transport.rank());
  RunOptions introduced = typed;
  introduced.startup_error = options.startup_error;
  const auto worker_program = program_folder() / "cgconform-worker";
  const Hello introduction = introduce_rank(transport.rank(), introduced, worker_program);
  const auto planner = planner_for(options);
  return run_rank(introduction, options, *planner, transport, worker_program);
}

int run_under_launcher(const RunOptions& options) {
  MpiTransport transport;
  try {
    refuse_launcher_of_another_mpi(transport.size());
    const int code = run_with(transport, options);
    ::alarm(last_seconds);
    return code;
  } catch (const LauncherGone& error) {
    complain(fmt::format("rank {}: {}", transport.rank(), error.what()));
    std::_Exit(exit_status(ExitCode::environment));
  } catch (...) {
    std::string message;
    const ExitCode code = describe_exception(message);
    complain(fmt::format("rank {}: {}", transport.rank(), message));
    ::alarm(last_seconds);
    MpiTransport::abort(exit_status(code));
  }
}

int run_alone(const RunOptions& options) {
  refuse_ranks_without_mpi();
  LoopbackTransport transport;
  return run_with(transport, options);
}

int list(CommandLine& line) {
  ListOptions options;
  options.format = line.action == Action::list        ? ListFormat::text
                   : line.action == Action::list_json ? ListFormat::json_lines
                                                      : ListFormat::dry_run;
  options.matrix_argument = line.options.matrix;
  options.repeat = line.options.selection.repeat;
  const auto plan = plan_matrix(line.options, target_device(line.options));
  options.scenarios = scenario_ids(line.options);
  list_cells(*plan, options);
  return exit_status(ExitCode::passed);
}

int run_program(int argc, const char* const* argv) {
  const auto rank = launcher_rank();
  // Every rank would print the same; the launcher takes the first code that is not 0.
  if (rank.value_or(0) != 0 && never_uses_mpi(argc, argv)) return 0;
  RunOptions options;
  try {
    CommandLine line = parse_command_line(argc, argv);
    if (line.action == Action::finished) return line.exit_code;
    if (line.action != Action::run) return list(line);
    options = line.options;
  } catch (const InputError& error) {
    if (!rank || never_uses_mpi(argc, argv)) throw;
    options.startup_error = error.what();
  }
  block_run_signals();
  return rank ? run_under_launcher(options) : run_alone(options);
}

}  // namespace
}  // namespace cgconform::harness

int main(int argc, char** argv) {
  using namespace cgconform::harness;
  try {
    return run_program(argc, argv);
  } catch (...) {
    std::string message;
    const ExitCode code = describe_exception(message);
    complain(message);
    return exit_status(code);
  }
}

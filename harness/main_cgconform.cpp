#include <cstdio>
#include <exception>
#include <string>

#include <fmt/format.h>
#include <unistd.h>

#include "harness/command_line.hpp"
#include "harness/exit_codes.hpp"
#include "harness/fingerprint.hpp"
#include "harness/launcher.hpp"
#include "harness/list_command.hpp"
#include "harness/mpi/mpi_transport.hpp"
#include "harness/rank_loop.hpp"
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

int run_with(Transport& transport, const RunOptions& options) {
  const auto planner = planner_for(options);
  return run_rank(options, *planner, transport, program_folder() / "cgconform-worker");
}

int run_under_launcher(const RunOptions& options) {
  MpiTransport transport;
  try {
    const int code = run_with(transport, options);
    ::alarm(last_seconds);
    return code;
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

int list(const CommandLine& line) {
  ListOptions options;
  options.format = line.action == Action::list        ? ListFormat::text
                   : line.action == Action::list_json ? ListFormat::json_lines
                                                      : ListFormat::dry_run;
  options.matrix_argument = line.options.matrix;
  list_cells(*plan_matrix(line.options, target_device(line.options)), options);
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

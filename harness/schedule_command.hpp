#pragma once

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's own name
class App;
}

namespace cgconform::harness {

/// Adds `cgconform schedule`: prints the order in which one rank's callables are captured and
/// replayed. Sets `exit_code` when the subcommand ran; unusable layouts throw InputError.
void add_schedule_command(CLI::App& app, int& exit_code);

}  // namespace cgconform::harness

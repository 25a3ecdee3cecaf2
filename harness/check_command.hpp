#pragma once

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's own name
class App;
}

namespace cgconform::harness {

/// Adds `cgconform check [FILE...]` and `cgconform check -- ARGUMENT...`: which rules a
/// configuration breaks. Needs no device and no MPI. `exit_code` becomes 0 where all are legal, 1
/// where some are not, 2 for unusable input.
void add_check_command(CLI::App& app, int& exit_code);

/// Adds `cgconform explain RULE` and `cgconform explain --all=markdown`.
void add_explain_command(CLI::App& app, int& exit_code);

}  // namespace cgconform::harness

#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/selection.hpp"

namespace cgconform::harness {

enum class DeviceChoice : std::uint8_t { automatic, reference, cuda };
enum class IsolationChoice : std::uint8_t { kept, cell };
/// Where buffers lie in their mappings with `--guard-pages`.
enum class GuardPagesChoice : std::uint8_t { off, end, start };

/// What the command line asks a run to do.
struct RunOptions {
  std::string matrix = "smoke";
  std::string scale;  ///< of its cells; empty for the matrix's own
  std::string filter;
  std::vector<std::string> cells;  ///< ids or hashes; empty for all
  std::uint64_t seed = 1;
  std::string report = "cgconform-report";
  std::string resume;     ///< folder of the run to go on with; empty for a new one
  int resumed_ranks = 0;  ///< of that run
  bool force = false;
  DeviceChoice device = DeviceChoice::automatic;
  IsolationChoice isolation = IsolationChoice::kept;
  bool share_legs = true;  ///< cells of kept workers take legs that an earlier one ran alike
  double deadline_scale = 1.0;
  std::chrono::milliseconds cell_deadline{600000};
  bool quiet = false;
  std::string wrap;  ///< tool of compute-sanitizer that workers run under; empty for none
  GuardPagesChoice guard_pages = GuardPagesChoice::off;
  std::vector<std::string> faults;  ///< ids of fault switches, for reproducers of the self-test
  std::string sabotage;
  std::vector<std::string> lifts;  ///< rules whose guard is lifted
  bool selftest = false;
  std::vector<std::string> selftest_rows;  ///< ids; empty for all
  bool probe = false;
  std::vector<std::string> probes;  ///< names; empty for all
  std::string mock_plan;            ///< mock cells instead of a matrix; empty for none
  Selection selection;
  std::vector<std::string> rerun_ids;  ///< of the cells that failed in the earlier report
  bool measure_overhead = false;       ///< print the runner's time a cell at the end
  std::vector<std::string> given;      ///< names of the options that were typed, without --
  std::vector<std::string> arguments;  ///< as typed, the program's name not
  std::string command_line;            ///< as typed
  std::string program = "cgconform";   ///< as it was called
  std::string startup_error;           ///< why the command line cannot be used; empty where it can
};

/// The options that decide what runs and how it is judged, one a line, equal on all ranks.
std::vector<std::string> deciding_options(const RunOptions& options);

std::string_view device_choice_name(DeviceChoice choice);
std::string_view guard_pages_name(GuardPagesChoice choice);

/// The filter expression of `--filter` and `--cell` together; empty for all cells.
std::string effective_filter(const RunOptions& options);

/// `word` as a shell takes it back unchanged.
std::string shell_quoted(const std::string& word);

/// How this program is started on so many ranks, with the launcher's permission to use fewer cores
/// than ranks where this run has it.
std::string program_line(const RunOptions& options, int ranks);

/// One line that repeats a cell of this run on as many ranks as its gang needs.
std::string reproducer_line(const RunOptions& options, const std::string& device, int ranks,
                            const std::string& cell_hash, const std::string& mock);

}  // namespace cgconform::harness

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "matrix/error.hpp"
#include "suites/selftest_table.hpp"

namespace cgconform::suites {
namespace {

struct RunnerRow {
  std::string_view mock;
  int ranks;
  Verdict expected;
  std::string_view statement;
  bool kept = false;
};

constexpr std::array runner_rows{
    RunnerRow{"pass", 2, Verdict::pass, "a gang of healthy workers"},
    RunnerRow{"segfault", 2, Verdict::crash, "a worker dies of SIGSEGV"},
    RunnerRow{"wild_access", 1, Verdict::fail_illegal_access,
              "a worker faults inside the device's memory"},
    RunnerRow{"abort_call", 2, Verdict::crash, "a worker calls abort"},
    RunnerRow{"killed", 2, Verdict::crash, "a worker is killed from outside"},
    RunnerRow{"exit_zero", 2, Verdict::crash, "a worker exits early with code 0 and no report"},
    RunnerRow{"exit_nonzero", 1, Verdict::crash, "a worker exits early with an error code"},
    RunnerRow{"throwing", 2, Verdict::crash, "a worker ends by an exception that nobody expects"},
    RunnerRow{"hang", 2, Verdict::hang, "a worker does nothing any more"},
    RunnerRow{"hang_stubbornly", 1, Verdict::hang, "a worker hangs and ignores TERM"},
    RunnerRow{"failing_check", 2, Verdict::fail_numeric_mismatch, "one rank reports a failure"},
    RunnerRow{"failing_when_kept", 2, Verdict::flaky, "a cell fails in a kept worker only", true},
    RunnerRow{"nothing_tested", 1, Verdict::fail_coverage, "a worker compared nothing"},
    RunnerRow{"other_plan", 2, Verdict::fail_suite, "the ranks ran different cells"},
};

/// What goes wrong on the last rank of a true cell once its graphs are captured.
struct MishapRow {
  std::string_view name;
  std::string_view mock;
  std::string_view cell;
  Verdict expected;
  std::string_view statement;
};

constexpr std::array mishap_rows{
    MishapRow{"error", "failing_check", "local", Verdict::fail_numeric_mismatch,
              "an error between capture and replay"},
    MishapRow{"exception", "throwing", "local", Verdict::fail_suite,
              "an exception that nobody expects between capture and replay"},
    MishapRow{"sigterm", "terminated", "local-pipeline", Verdict::crash,
              "a rank gets SIGTERM while graphs are replayed"},
    MishapRow{"early-exit", "exit_zero", "local-pipeline", Verdict::crash,
              "a rank exits with code 0 while graphs are replayed"},
    MishapRow{"killed-in-replay", "killed", "full-iteration-pipeline", Verdict::crash,
              "a peer is killed in the replay of the whole iteration"},
};

const matrix::Cell& cell_named(std::string_view name) {
  const auto cells = selftest_cells();
  const auto found = std::find_if(cells.begin(), cells.end(),
                                  [&](const SelftestCell& cell) { return cell.name == name; });
  if (found == cells.end()) throw InternalError(fmt::format("no self-test cell {}", name));
  return found->cell;
}

}  // namespace

void add_runner_rows(std::vector<SelftestRow>& rows) {
  for (const RunnerRow& runner : runner_rows) {
    // Where one of several workers misbehaves, it is the last.
    const bool one_of_several = runner.ranks > 1 && is_bad(runner.expected);
    rows.push_back({.id = fmt::format("runner/{}", runner.mock),
                    .kind = SelftestKind::runner,
                    .statement = std::string(runner.statement),
                    .mock = std::string(runner.mock),
                    .mock_ranks = runner.ranks,
                    .kept = runner.kept,
                    .expected = runner.expected,
                    .failing_rank = one_of_several ? runner.ranks - 1 : -1});
  }
  for (const MishapRow& mishap : mishap_rows) {
    const matrix::Cell& cell = cell_named(mishap.cell);
    rows.push_back({.id = fmt::format("mishap/{}", mishap.name),
                    .kind = SelftestKind::runner,
                    .statement = std::string(mishap.statement),
                    .cell = cell,
                    .mishap = std::string(mishap.mock),
                    .expected = mishap.expected,
                    .failing_rank = cell.ranks() - 1});
  }
  for (const int rank : {0, 1}) {
    rows.push_back({.id = fmt::format("F02a/local-pipeline/rank{}", rank),
                    .kind = SelftestKind::fault,
                    .statement = fmt::format("a temporary is freed on rank {} alone", rank),
                    .cell = cell_named("local-pipeline"),
                    .faults = {workloads::Fault::f02a_freed_temporary},
                    .fault_rank = rank,
                    .expected = Verdict::fail_stale_address,
                    .check_id = "MEM-07",
                    .failing_rank = rank});
  }
}

}  // namespace cgconform::suites

#include <algorithm>

#include <fmt/format.h>

#include "matrix/error.hpp"
#include "suites/probe_rows.hpp"
#include "suites/selftest_table.hpp"

namespace cgconform::suites {
namespace {

using matrix::Cell;
using workloads::Fault;

constexpr std::string_view registered =
    "NCCL registers graph memory that is mapped in pieces: illegal accesses at replay";
constexpr std::string_view host_copies =
    "copies to the host that outlive the graph they begin in: the capture ends with work that "
    "nothing joins";

/// Graphs that hold collectives over memory of several mappings, with registration left on.
Cell expandable(std::string_view base) {
  Cell cell = probe_cell(base);
  cell.config.data_parallel_size = 2;
  cell.config.pipeline_model_parallel_size = 1;
  cell.platform.expandable_segments = true;
  cell.platform.expandable_segments_as_tested = true;
  return cell;
}

Cell offloading(std::string_view base) {
  Cell cell = probe_cell(base);
  cell.config.cpu_offloading = true;
  cell.config.cpu_offloading_num_layers = 1;
  return cell;
}

}  // namespace

Cell probe_cell(std::string_view name) {
  const auto cells = selftest_cells();
  const auto found = std::find_if(cells.begin(), cells.end(),
                                  [&](const SelftestCell& cell) { return cell.name == name; });
  if (found == cells.end()) throw InternalError(fmt::format("the self-test has no cell {}", name));
  return found->cell;
}

std::vector<Probe> memory_probes() {
  return {
      {.rule = "expandable-segments-te",
       .protects = registered,
       .cell = expandable("transformer-engine"),
       .expected = Verdict::fail_illegal_access,
       .needs = ProbeNeeds::cuda},
      {.rule = "expandable-segments-local-pre-sm100",
       .protects = registered,
       .cell = expandable("local"),
       .expected = Verdict::fail_illegal_access,
       .needs = ProbeNeeds::cuda},
      {.rule = "expandable-segments-full-iteration",
       .protects = registered,
       .cell = expandable("full-iteration"),
       .expected = Verdict::fail_illegal_access,
       .needs = ProbeNeeds::cuda},
      {.rule = "expandable-segments-untested",
       .protects = registered,
       .not_shown = "the probes of the other rules about expandable segments show it: the ruleset "
                    "goes by what is in effect, not by its spelling"},
      {.rule = "uvm-expandable",
       .protects = "pages that move between host and device under mapped pieces",
       .not_shown = "no pool of unified memory"},
      {.rule = "cpu-offload-per-layer",
       .variant = "local",
       .protects = host_copies,
       .cell = offloading("local"),
       .expected = Verdict::fail_capture,
       .check_id = "LIF-01"},
      {.rule = "cpu-offload-per-layer",
       .variant = "transformer-engine",
       .protects = host_copies,
       .cell = offloading("transformer-engine"),
       .expected = Verdict::fail_capture,
       .check_id = "LIF-01"},
      {.rule = "cpu-offload-per-layer",
       .variant = "full-iteration",
       .protects = "copies to the host on the host's schedule, which a graph does not run",
       .cell = offloading("full-iteration")},
      {.rule = "bridge-autocast-spec-local",
       .protects = host_copies,
       .not_shown = "cpu-offload-per-layer/local shows the same copies"},
      {.rule = "fgao-local-modules",
       .protects = "a module's activations leave for the host inside the graph of its layer",
       .not_shown = "no fine-grained offloading"},
      {.rule = "fgao-local-not-whole-layer",
       .protects = "activations leave for the host inside the graph of a whole layer",
       .not_shown = "no fine-grained offloading"},
      {.rule = "fgao-no-moe-scope",
       .protects = "activations of captured experts leave for the host",
       .not_shown = "no fine-grained offloading"},
      {.rule = "fgao-warmup-positive",
       .protects = "host blocks are allocated inside the capture",
       .not_shown = "no fine-grained offloading"},
      {.rule = "fgao-full-iter-inflight",
       .protects = "host code bounds the copies in flight, which replays do not run",
       .not_shown = "no fine-grained offloading"},
      {.rule = "bridge-cleanup-order",
       .protects = "a communicator ends before the graphs that hold it: its end waits for ever",
       .selftest_row = "F32a/scenario",
       .expected = Verdict::fail_teardown,
       .check_id = "LIF-08"},
      {.rule = "stream-pool-distinct",
       .protects = "one stream in two open captures, which merge",
       .cell = probe_cell("local"),
       .switches = {Fault::f19e_two_captures_joined},
       .expected = Verdict::fail_capture,
       .check_id = "LIF-01"},
      {.rule = "max-connections-warn",
       .protects = "branches of a graph that wait for each other in one hardware queue",
       .not_shown = "needs device cuda and a measurement of overlap"},
      {.rule = "gtp-node-priority",
       .protects = "communication kernels that come after all others on a full device",
       .not_shown = "no gathered weights of a tensor-parallel group"},
  };
}

}  // namespace cgconform::suites

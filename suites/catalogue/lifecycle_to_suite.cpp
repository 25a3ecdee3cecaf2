#include <array>

#include "suites/catalogue/rows.hpp"

namespace cgconform::suites::catalogue {
namespace {

using enum CheckFamily;

constexpr std::array rows{
    CatalogueRow{"LIF-01", lif,
                 "Every call in the capture window has its status checked; first cause named",
                 "audit log", "I M"},
    CatalogueRow{"LIF-02", lif,
                 "Each illegal call gives its code: sync, event query, legacy stream, cudaMalloc, "
                 "pageable copy, unjoined fork, merge, wrong thread/stream, double begin",
                 "code table (900-908), per CUDA version", "M"},
    CatalogueRow{"LIF-03", lif,
                 "After a failed capture: stream not capturing, eager right, collective right, "
                 "memory back, re-capture works",
                 "five-part oracle", "M A V"},
    CatalogueRow{"LIF-04", lif,
                 "One rank fails capture: all ranks learn it, drop the graph, run eager, "
                 "re-capture together",
                 "agreement, eq", "N P"},
    CatalogueRow{"LIF-05", lif,
                 "Re-capture with another body, other comm set, other size, 20 times", "eq, bytes",
                 "I S"},
    CatalogueRow{"LIF-06", lif,
                 "One graph, two execs; clone; destroy one: other right; comm reference counts "
                 "fall to 0 at last",
                 "eq, deadline", "V"},
    CatalogueRow{"LIF-07", lif,
                 "Every legal destroy order of graph, exec, stream, buffers, comm ends in time",
                 "permutations", "V N"},
    CatalogueRow{"LIF-08", lif,
                 "Comm destroy, finalize and abort with a live graph are refused or deferred by "
                 "the product's teardown; raw call in child gives HANG verdict in the deadline",
                 "three children", "V N"},
    CatalogueRow{"LIF-09", lif, "Exec destroyed while in flight: replay completes, result right",
                 "eq", ""},
    CatalogueRow{"LIF-10", lif,
                 "Error, exception, SIGTERM or early return between capture and replay: exit in T, "
                 "right code, nothing left",
                 "process audit", "N"},
    CatalogueRow{"LIF-11", lif, "Graph captured and never launched frees everything", "bytes", "V"},
    CatalogueRow{
        "LIF-12", lif,
        "Capture as the first CUDA work in the process; lazily loaded module; first cuBLAS use",
        "works, or named lazy-init", ""},
    CatalogueRow{"LIF-13", lif, "Upload then launch equals launch; upload on another stream", "eq",
                 ""},
    CatalogueRow{"LIF-14", lif,
                 "Exec update with new pointers/params takes effect; changed topology refused with "
                 "old exec intact",
                 "eq, code", ""},
    CatalogueRow{"LIF-15", lif,
                 "Exec update on a graph with NCCL nodes: outcome per version recorded; never a "
                 "silent wrong result",
                 "verdict, eq", "V N"},
    CatalogueRow{"LIF-16", lif,
                 "Release memory (sleep), restore, re-capture; replay between is refused",
                 "eq, error", "A"},
    CatalogueRow{
        "LIF-17", lif,
        "Captured work is complete: nothing ran at capture time, nothing missing at replay",
        "buffer unchanged by capture, node census, eq from replay 2", "I S"},
    CatalogueRow{"LIF-18", lif, "Sticky error in one case does not reach the next case",
                 "next case in fresh process passes", "all"},
    CatalogueRow{"CCY-01", ccy, "Fork/join over 2, 4, 64 branches: joined, right",
                 "reachability, eq", "M"},
    CatalogueRow{
        "CCY-02", ccy,
        "Producer reaches consumer in the captured DAG, and result holds with the producer delayed",
        "reachability and delay", "S"},
    CatalogueRow{"CCY-03", ccy,
                 "Order across graphs and between graph and eager work holds with delay",
                 "event ledger, eq", "I S P"},
    CatalogueRow{
        "CCY-04", ccy,
        "Mode {global, thread-local, relaxed} × foreign thread {malloc, event query, async copy, "
        "module load, exec destroy}: expected outcome, attributed to the foreign thread",
        "table in children", "M"},
    CatalogueRow{"CCY-05", ccy,
                 "Watchdog-style event query thread during capture and replay: no failure in "
                 "thread-local mode",
                 "no error, eq", "M"},
    CatalogueRow{"CCY-06", ccy, "Replay of A during capture of B", "both right", "M N"},
    CatalogueRow{"CCY-07", ccy,
                 "Graph beside eager compute on another stream; memory-bound and compute-bound",
                 "eq", ""},
    CatalogueRow{"CCY-08", ccy,
                 "One exec on two streams is serial; two execs of one graph are not assumed so",
                 "eq, timing", ""},
    CatalogueRow{"CCY-09", ccy, "External events link two graphs on device", "eq", ""},
    CatalogueRow{"CCY-10", ccy,
                 "200 queued launches without host sync, one rank delayed by seconds",
                 "eq, no hang", "N V"},
    CatalogueRow{"CCY-11", ccy, "Two threads capture two comms at once", "eq or refusal", "M N"},
    CatalogueRow{"CCY-12", ccy,
                 "`CUDA_DEVICE_MAX_CONNECTIONS` 1/8/32 does not change results or cause hangs",
                 "eq, deadline", "V N"},
    CatalogueRow{"CCY-13", ccy, "Stream priority survives in kernel nodes where asked",
                 "node attribute", ""},
    CatalogueRow{
        "CCY-14", ccy,
        "More than one GPU per process is skipped with reason or run in a child with deadline",
        "verdict", "N"},
    CatalogueRow{"PRF-01", prf,
                 "Launch-bound workload: replay faster than eager by stated factor; others not "
                 "slower beyond noise",
                 "ratio of medians, bounds", "I S"},
    CatalogueRow{"PRF-02", prf, "Host time per replay is bounded and flat in node count", "slope",
                 "Z"},
    CatalogueRow{"PRF-03", prf, "Capture and instantiate time grow at most linearly with nodes",
                 "fit", "Z"},
    CatalogueRow{
        "PRF-04", prf,
        "First launch, after upload and repeat launch reported apart; setup never averaged in",
        "fields present", ""},
    CatalogueRow{"PRF-05", prf,
                 "Collective bandwidth in graph ≥ eager minus noise, per op and size", "ratio",
                 "V N Z"},
    CatalogueRow{"PRF-06", prf, "Compute/communication overlap kept", "overlap share", "S N"},
    CatalogueRow{"PRF-07", prf, "Timed replays are the validated ones", "checksum of timed run",
                 "all"},
    CatalogueRow{"PRF-08", prf, "No drift or stall over 10 000 replays", "trend, max gap", "I S P"},
    CatalogueRow{"PRF-09", prf, "Break-even replay count reported", "field", ""},
    CatalogueRow{"PRF-10", prf, "A/A run (eager against eager) never fails the gate in 20 tries",
                 "0 fails", ""},
    CatalogueRow{"PRF-11", prf, "Slowest rank and skew reported; outlier tied to a rank", "fields",
                 "N"},
    CatalogueRow{"CTL-01", ctl,
                 "IF, WHILE, SWITCH with device-set conditions equal host branches, conditions "
                 "vary per replay",
                 "eq", ""},
    CatalogueRow{"CTL-02", ctl,
                 "NCCL in a conditional body: refused at instantiate, or right, by version table",
                 "code / eq", "V N"},
    CatalogueRow{"CTL-03", ctl, "Ranks take different branches around a collective: detected",
                 "ledger", "N"},
    CatalogueRow{"CTL-04", ctl, "Child graph with collective equals inlined", "eq", "V N"},
    CatalogueRow{"CTL-05", ctl,
                 "Host nodes run once per replay in order; a CUDA call inside is reported",
                 "counter, code", ""},
    CatalogueRow{
        "CTL-06", ctl,
        "Disabled node leaves the rest right; disabling a collective on one rank is refused",
        "eq, ledger", "N"},
    CatalogueRow{"CTL-07", ctl,
                 "Copy/memset nodes incl. pitched, symbol, host: params round trip and take effect",
                 "eq", ""},
    CatalogueRow{"TLG-01", tlg, "DOT dump per rank parses; nodes and edges equal the API's",
                 "count equality", "I S"},
    CatalogueRow{"TLG-02", tlg,
                 "Topology hash equal over ranks of the same role and over re-captures", "hash",
                 "N P"},
    CatalogueRow{"TLG-03", tlg,
                 "Replays counted per scope, layer, micro-batch and step equal the plan; eager "
                 "fallbacks counted apart",
                 "counters", "I S P"},
    CatalogueRow{"TLG-04", tlg, "One trace record per collective per replay", "count", "N"},
    CatalogueRow{"TLG-05", tlg,
                 "compute-sanitizer memcheck and racecheck smoke case clean; seeded error found",
                 "tool exit", "I S"},
    CatalogueRow{"TLG-06", tlg,
                 "NVTX ranges for capture, instantiate, replay, verify present when asked",
                 "export", ""},
    CatalogueRow{"SUI-01", sui,
                 "Each built-in fault switch gives its named verdict; switch off gives PASS",
                 "self-test table", "all"},
    CatalogueRow{"SUI-02", sui,
                 "A case with 0 captures, 0 replays, 0 comparisons or, on device cuda, host-only "
                 "data is FAIL, never PASS",
                 "counters", "all"},
    CatalogueRow{"SUI-03", sui,
                 "Expansion: total = run + refused + skipped, no doubles, stable order and ids",
                 "count, hash", "all"},
    CatalogueRow{
        "SUI-04", sui,
        "Any rank's failure, missing report or non-zero exit fails the case; all ranks merged",
        "merge audit", "N"},
    CatalogueRow{"SUI-05", sui,
                 "Timeout gives HANG with last phase per rank, child tree killed, next case runs",
                 "process audit", "N"},
    CatalogueRow{
        "SUI-06", sui,
        "JUnit, JSON, console and exit code agree; schema-checked; crash leaves valid partial file",
        "cross-compare", ""},
    CatalogueRow{
        "SUI-07", sui,
        "Filter, list, shard, repeat, shuffle select what they say; shards partition the list",
        "set algebra", ""},
    CatalogueRow{"SUI-08", sui,
                 "Zero selected cases is an error unless allowed; skips have a reason and a budget",
                 "exit code", ""},
    CatalogueRow{"SUI-09", sui, "Retry reports FLAKY, not PASS; both attempts kept", "field", ""},
    CatalogueRow{"SUI-10", sui, "Fault on one fixed rank or node is attributed to it", "field",
                 "N"},
};

}  // namespace

std::span<const CatalogueRow> lifecycle_to_suite() {
  return rows;
}

}  // namespace cgconform::suites::catalogue

#include <array>

#include "suites/catalogue/rows.hpp"

namespace cgconform::suites::catalogue {
namespace {

using enum CheckFamily;

constexpr std::array rows{
    CatalogueRow{"MEM-01", mem,
                 "100 capture/replay/destroy cycles: slope of device free, graph attributes, host "
                 "RSS, fds, pinned bytes is 0 after warm-up",
                 "regression with noise bound; 256 KiB a cycle for the heap beside a GPU's driver",
                 "I S A V"},
    CatalogueRow{"MEM-02", mem,
                 "After destroy and trim, use is back at baseline, incl. NCCL persistent buffers",
                 "bytes ≤ tolerance within deadline", "I S V"},
    CatalogueRow{"MEM-03", mem,
                 "Shared pool needs less than separate pools; results right in capture order",
                 "bytes, eq", "I S A"},
    CatalogueRow{"MEM-04", mem,
                 "Shared pool replayed out of the planned order is refused or detected",
                 "verdict; positive control shows corruption", "S P"},
    CatalogueRow{"MEM-05", mem, "Peak in capture and replay ≤ stated factor of eager", "ratio",
                 "I S R A"},
    CatalogueRow{"MEM-06", mem,
                 "Number of static buffers follows in-flight micro-batches, not total",
                 "count over M and PP", "P"},
    CatalogueRow{"MEM-07", mem,
                 "Every pointer in kernel, copy and memset nodes lies in a live block of the same "
                 "mapping generation",
                 "address ledger before launch", "I S A"},
    CatalogueRow{"MEM-08", mem,
                 "Outputs stay readable after graph destroy while held, and are freed after",
                 "bytes, eq", "A"},
    CatalogueRow{"MEM-09", mem,
                 "A slot still needed is not overwritten by a later replay (1F1B, 2+ in flight)",
                 "hash at production and use", "S P"},
    CatalogueRow{"MEM-10", mem,
                 "A slot is released no earlier than its last reader, incl. sends in flight",
                 "window ledger, delay stress", "P"},
    CatalogueRow{"MEM-11", mem, "Expandable/VMM multi-chunk and plain allocator give equal results",
                 "eq", "A V"},
    CatalogueRow{
        "MEM-12", mem,
        "Alloc/free nodes: same address each launch, no growth with auto-free, trim returns bytes",
        "attributes", "A"},
    CatalogueRow{"MEM-13", mem,
                 "OOM inside capture: named error, memory returned, smaller capture then works, "
                 "other ranks told",
                 "verdict, bytes", "A N"},
    CatalogueRow{
        "MEM-14", mem,
        "cuBLAS workspace does not grow over 100 captures and outlives every graph using it",
        "bytes; replay first graph after destroying second", "A"},
    CatalogueRow{"MEM-15", mem,
                 "Pinned staging block is not recycled while a captured copy may read it", "poison",
                 "A"},
    CatalogueRow{"MEM-16", mem, "Cross-stream block reuse only after join", "canary with delay",
                 "A"},
    CatalogueRow{"MEM-17", mem,
                 "Guard bands and poison intact after N replays; freed blocks never read", "canary",
                 "I S A"},
    CatalogueRow{"MEM-18", mem,
                 "Largest allocatable block after 50 mixed cycles ≥ stated part of free", "probe",
                 "A"},
    CatalogueRow{"MEM-19", mem,
                 "After mpirun ends (ok, fail, killed) every GPU is at its start level and no "
                 "process remains",
                 "device query, process table", "N"},
    CatalogueRow{"COM-01", com,
                 "Each collective and grouped p2p, in and truly aliased in place, every dtype/op: "
                 "replay equals eager",
                 "eq, ≥12 replays", "T N Z V"},
    CatalogueRow{"COM-02", com, "Sizes 0, 1, odd, misaligned, large; uneven all-to-all-v", "eq",
                 "Z N"},
    CatalogueRow{"COM-03", com,
                 "Captured graph has the expected kernel count, no unexpected copy nodes, host "
                 "nodes only where the transport needs them",
                 "node census", "V"},
    CatalogueRow{"COM-04", com, "Requested algorithm/protocol/registration is really active",
                 "log or counter, else INCONCLUSIVE", "V A"},
    CatalogueRow{
        "COM-05", com,
        "N ops on one comm keep order: a path joins each pair (unless ordering is switched off)",
        "reachability", "V"},
    CatalogueRow{"COM-06", com, "TP, DP, EP and PP communicators in one graph", "eq", "P N"},
    CatalogueRow{"COM-07", com,
                 "PP p2p in the graph, 1F1B and interleaved, PP 2/4, VPP 1/2: activations, grads, "
                 "weights equal eager",
                 "eq per micro-batch", "I S P R"},
    CatalogueRow{"COM-08", com, "Per-stage graphs with eager p2p between equal eager", "eq",
                 "I S P"},
    CatalogueRow{"COM-09", com,
                 "Ranks agree on captured or eager, body hash, comm, op, bytes, order before each "
                 "launch; the odd rank is named before anything hangs",
                 "MPI ledger < 1 s", "N P"},
    CatalogueRow{"COM-10", com, "Ranks replay the same variant (size bucket, registered set)",
                 "ledger field", "N Z"},
    CatalogueRow{"COM-11", com,
                 "Two graphs on two comms launched in opposite order on two ranks is reported",
                 "order hash; deadline as net", "N"},
    CatalogueRow{"COM-12", com, "eager → graph → eager → graph on one comm", "eq each", "V N"},
    CatalogueRow{"COM-13", com,
                 "Eager collective during outstanding graph, same comm: right under mixing 2; "
                 "refused by us under 0/1",
                 "eq / refusal", "V"},
    CatalogueRow{"COM-14", com,
                 "Two graphs of one comm are always ordered; parallel launch without order allowed "
                 "only under mixing 2",
                 "ledger; eq", "V N"},
    CatalogueRow{"COM-15", com,
                 "Mixing modes 0/1/2 and env override give the documented node difference and "
                 "equal results on supported use",
                 "census, eq", "V"},
    CatalogueRow{"COM-16", com,
                 "Stream ordering 0 with mixing 2 warns and is not in effect; with 0/1 and one "
                 "stream is right",
                 "log, reachability", "V"},
    CatalogueRow{"COM-17", com,
                 "Group with captured and plain streams, or two captures, gives InvalidUsage; text "
                 "kept; child then ends in time",
                 "code", "M"},
    CatalogueRow{
        "COM-18", com,
        "`NCCL_GRAPH_REGISTER` 0/1 × {cudaMalloc, one-chunk VMM, multi-chunk VMM, ncclMemAlloc} × "
        "{p2p, net, NVLS}: guard decides; guard off → fault caught in child, never a false pass",
        "table, sticky-error sweep", "A V N"},
    CatalogueRow{"COM-19", com,
                 "Destroying the graph deregisters: another buffer, and new physical memory at the "
                 "old address, work or are refused",
                 "eq, generation ledger", "A V"},
    CatalogueRow{"COM-20", com,
                 "Window/symmetric buffers: registered before and during capture, shared by two "
                 "graphs, not overwritten by the next replay before use",
                 "hash at use", "A V"},
    CatalogueRow{"COM-21", com, "Registered on some ranks only is detected", "ledger count", "N V"},
    CatalogueRow{"COM-22", com,
                 "Async error is success on every comm after every phase; an injected one is "
                 "reported with rank, comm, phase",
                 "poll", "N"},
    CatalogueRow{"COM-23", com,
                 "A stuck peer in replay: timeout, abort and exit inside the deadline, cause HANG, "
                 "per-rank phase given",
                 "child, wall clock", "N"},
    CatalogueRow{
        "COM-24", com,
        "A peer killed in replay: survivors end in the deadline, job fails, killed rank named",
        "child", "N"},
    CatalogueRow{"COM-25", com,
                 "First use of a comm or p2p pair in capture: works or is reported as lazy-init by "
                 "NCCL version",
                 "verdict table", "V N"},
    CatalogueRow{"COM-26", com, "Split/shared-resource comms captured together and apart", "eq",
                 "N V"},
    CatalogueRow{"COM-27", com, "Non-blocking comm (in-progress results) captured rightly",
                 "eq, states", "N"},
    CatalogueRow{
        "COM-28", com,
        "Device-resident pre-multiply scalar is read at replay, host one is fixed; both documented",
        "eq with changed scalar", "T"},
    CatalogueRow{"COM-29", com,
                 "Copy-engine, symmetric and put/signal paths over ≥12 replays with skewed ranks",
                 "eq", "V N"},
    CatalogueRow{"COM-30", com,
                 "Overlapped reduce-scatter / all-gather buckets inside the graph equal eager",
                 "eq", "I S N"},
    CatalogueRow{"COM-31", com,
                 "Each NCCL variable offered as an axis has an observable effect; a dead one is "
                 "listed as such",
                 "probe", "V"},
    CatalogueRow{"COM-32", com, "Graph beside eager traffic on another comm", "eq, deadline",
                 "N V"},
};

}  // namespace

std::span<const CatalogueRow> memory_and_communication() {
  return rows;
}

}  // namespace cgconform::suites::catalogue

#include <array>

#include "suites/catalogue/rows.hpp"

namespace cgconform::suites::catalogue {
namespace {

using enum CheckFamily;

constexpr std::array rows{
    CatalogueRow{"CON-01", con, "full_iteration with any module scope is refused",
                 "rule id, before any GPU work; each legal neighbour admitted", "I S"},
    CatalogueRow{"CON-02", con, "moe and moe_router together are refused", "same", "S"},
    CatalogueRow{"CON-03", con,
                 "moe_preprocess needs moe_router under TE; under local the two are set together",
                 "refusal / normalised scope list", "I S"},
    CatalogueRow{"CON-04", con, "moe, moe_router need more than one expert", "same", "S"},
    CatalogueRow{"CON-05", con, "mlp scope needs at least one dense layer",
                 "same, with freq 1, list of ones, mixed list", "S"},
    CatalogueRow{"CON-06", con, "moe scope needs capacity factor and padding", "4-cell truth table",
                 "S"},
    CatalogueRow{"CON-07", con,
                 "moe_preprocess refused where preprocess copies to host (alltoall with capacity "
                 "or fp8 router padding, unpadded)",
                 "truth table", "S"},
    CatalogueRow{"CON-08", con, "full recompute admitted only with full_iteration",
                 "table over R × I", "I R"},
    CatalogueRow{"CON-09", con, "recompute of moe × moe_router scope refused for TE, not for local",
                 "table", "I S R"},
    CatalogueRow{"CON-10", con,
                 "attention dropout > 0 × core_attn recompute × captured attention (attn, whole "
                 "layer, full_iteration) refused; any one factor off admits",
                 "8-cell table × 3 capture forms", "I S R"},
    CatalogueRow{"CON-11", con, "hidden dropout × mlp or moe recompute × captured same refused",
                 "table", "I S R"},
    CatalogueRow{"CON-12", con, "router jitter × graphed moe recompute refused", "table", "S R"},
    CatalogueRow{"CON-13", con,
                 "expandable segments × graph registration on refused; decided from the effective "
                 "allocator state, all spellings and variables",
                 "accepted/refused table, incl. old and new variable name, upper/lower case, other "
                 "options in the list",
                 "I A V"},
    CatalogueRow{"CON-14", con, "full_iteration with host NaN/Inf check refused", "rule id", "I S"},
    CatalogueRow{"CON-15", con,
                 "host offload refused for per-layer impls, admitted for full_iteration; "
                 "fine-grained subset rules",
                 "table", "I S"},
    CatalogueRow{"CON-16", con,
                 "a2a overlap × moe/mlp scope (TE), delayed wgrad × attention bias, and missing "
                 "grad fusion refused",
                 "table", "I S"},
    CatalogueRow{"CON-17", con,
                 "PP=1 requires one model chunk; with PP>1 number of captured micro-batches "
                 "follows the schedule",
                 "count", "P"},
    CatalogueRow{"CON-18", con,
                 "impl none with scopes given is reported as no-op, never as a passed graph test",
                 "verdict", "I S"},
    CatalogueRow{"CON-19", con,
                 "deprecated and new spellings give the same plan; both at once refused",
                 "plan hash", "I S"},
    CatalogueRow{"CON-20", con,
                 "Full table: every cell of the matrix is PASS-able, refused or skipped, equal to "
                 "an independently written table",
                 "cell-by-cell diff, 100 %", "all"},
    CatalogueRow{
        "CON-21", con,
        "Verdict is equal on all ranks, also when a variable differs on one rank; odd rank named",
        "MPI compare", "N V A"},
    CatalogueRow{
        "CON-22", con,
        "Refusal has no side effect: no context, communicator or file left; own exit code; < 2 s",
        "process audit", "all"},
    CatalogueRow{"CON-23", con, "All violated rules are listed, first one stable", "text", "all"},
    CatalogueRow{"CON-24", con,
                 "Missing driver/CUDA/NCCL/arch capability is SKIP with reason, not PASS or FAIL",
                 "faked version strings", "V"},
    CatalogueRow{"CON-25", con,
                 "At replay: wrong input count, shape, dtype, device, stride or moved address is "
                 "refused with the argument named",
                 "error text, nothing launched", "I S"},
    CatalogueRow{"CON-26", con, "Backward before forward, double forward, unfinished pair refused",
                 "error", "I S P"},
    CatalogueRow{"NUM-01", num, "Forward replay equals eager", "eq, 20 replays", "I S T Z"},
    CatalogueRow{"NUM-02", num, "Input, weight and bias grads equal eager, per parameter", "eq",
                 "I S R T"},
    CatalogueRow{"NUM-03", num, "Weights after K steps equal eager (SGD, momentum, Adam)",
                 "eq / ac", "I S T"},
    CatalogueRow{"NUM-04", num,
                 "Accumulated grads over M≥3 micro-batches equal eager; zeroing per step", "eq",
                 "I S P"},
    CatalogueRow{"NUM-05", num, "Optional inputs and masks that change every step take effect",
                 "eq, mask differs each step", "S"},
    CatalogueRow{"NUM-06", num,
                 "Capture and warm-up leave params, grads, RNG, amax and counters unchanged",
                 "hash before/after", "I S T"},
    CatalogueRow{"NUM-07", num, "Warm-up 0, 1, 3, 11 gives the same trajectory from step 1 on",
                 "eq of losses and weights", "I S"},
    CatalogueRow{
        "NUM-08", num,
        "Successive replays draw different dropout masks, equal to eager at the same counter",
        "mask hash list", "S R"},
    CatalogueRow{"NUM-09", num,
                 "Reseed after capture changes the sequence; restoring the seed restores it",
                 "mask hashes", "S"},
    CatalogueRow{"NUM-10", num,
                 "RNG state can be saved and restored across replays; eager and graph draws "
                 "interleave without overlap",
                 "counter and mask equality", "I S"},
    CatalogueRow{"NUM-11", num,
                 "Masks equal on ranks that replicate, different on ranks that shard",
                 "pairwise hash compare", "N"},
    CatalogueRow{"NUM-12", num, "Recomputed mask equals forward mask, in every replay", "mask hash",
                 "S R"},
    CatalogueRow{"NUM-13", num, "Recompute on and off give equal grads in graph, as in eager", "eq",
                 "I S R P"},
    CatalogueRow{"NUM-14", num,
                 "fp8 amax history and scale advance as in eager with range doubling each step",
                 "history eq, no saturation", "S T"},
    CatalogueRow{"NUM-15", num,
                 "fp8 amax is updated once per step under recompute and M micro-batches",
                 "update count", "S R T"},
    CatalogueRow{
        "NUM-16", num,
        "Cached quantised weight is refreshed on first micro-batch only and after each step",
        "count, eq", "S T P"},
    CatalogueRow{"NUM-17", num,
                 "Learning rate, step, bias correction, token count and loss scale changed between "
                 "replays take effect",
                 "weights eq shadow", "I S"},
    CatalogueRow{"NUM-18", num,
                 "Loss-scale skip: an Inf step leaves weights unchanged, scale halves, growth "
                 "counter resets; next steps resume",
                 "exact values", "S T"},
    CatalogueRow{"NUM-19", num,
                 "Global grad norm and clip inside the graph equal eager on all ranks", "eq / ac",
                 "S N"},
    CatalogueRow{"NUM-20", num,
                 "MoE: routing differs every replay; token counts conserved over ranks; outputs "
                 "and aux loss equal eager",
                 "count sum, eq", "S N"},
    CatalogueRow{"NUM-21", num,
                 "MoE: exactly full capacity passes; capacity+1 is flagged or dropped exactly as "
                 "eager, never silent",
                 "flag and eq", "S N"},
    CatalogueRow{"NUM-22", num, "Padding rows carry no data of earlier steps", "poison, eq", "S"},
    CatalogueRow{
        "NUM-23", num,
        "Mamba: convolution and scan state carry or reset as in eager over sequence chunks", "eq",
        "S T"},
    CatalogueRow{"NUM-24", num,
                 "Only some layers captured (first, last, odd): trajectory equals all-eager", "eq",
                 "S P"},
    CatalogueRow{"NUM-25", num,
                 "Validation graph every k steps leaves the training trajectory unchanged",
                 "eq with and without", "I S"},
    CatalogueRow{"NUM-26", num,
                 "Last partial micro-batch or new shape uses eager or its own graph and stays "
                 "right; ranks agree on the choice",
                 "eq, path recorded", "S P N"},
    CatalogueRow{
        "NUM-27", num,
        "In-place weight change between replays is seen; moved storage is refused or re-captured",
        "eq / error", "S"},
    CatalogueRow{"NUM-28", num,
                 "Frozen and unused parameters get no grad; returned grads do not alias static "
                 "slots used by the next replay",
                 "pointer and hash at use", "S"},
    CatalogueRow{"NUM-29", num,
                 "Save, destroy, restart, load, re-capture: trajectory equals unbroken run",
                 "eq from step k", "I S P"},
    CatalogueRow{"NUM-30", num, "Two graph runs, and two captures of the same body, are equal",
                 "eq G/G2", "I S T"},
    CatalogueRow{"NUM-31", num,
                 "Soak ≥ 10 000 replays: every step's checksum and every parameter hash equal "
                 "eager at sampled steps",
                 "running hash", "I S P"},
    CatalogueRow{"NUM-32", num,
                 "Whole-iteration capture (fwd+bwd+reduce+opt) equals eager, loss on device",
                 "eq, K≥20", "I N P"},
    CatalogueRow{"NUM-33", num,
                 "Comparator: NaN against number, Inf sign, -0, shape, empty, one ulp over "
                 "tolerance all give the right answer",
                 "unit cases", "T"},
    // Not of the source's list: what every comparison with eager rests on.
    CatalogueRow{"NUM-34", num,
                 "Every op and whole eager training steps agree with the reference device within "
                 "the stated tolerance, in every dtype",
                 "ac", "T"},
};

}  // namespace

std::span<const CatalogueRow> constraints_and_numerics() {
  return rows;
}

}  // namespace cgconform::suites::catalogue

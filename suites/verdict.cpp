#include "suites/verdict.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

namespace cgconform::suites {
namespace {

using enum Verdict;
using enum VerdictClass;

constexpr std::array verdict_rows{
    VerdictRow{pass, "PASS", good, "every applicable check holds"},
    VerdictRow{guard_lifted, "GUARD_LIFTED", good,
               "every applicable check holds although a guard was lifted; no conformance follows"},
    VerdictRow{baseline, "BASELINE", good, "eager equals its own repeat; no graph was under test"},
    VerdictRow{rejected_constraint, "REJECTED_CONSTRAINT", refused,
               "the configuration breaks a rule and was refused before any work"},
    VerdictRow{skip, "SKIP", skipped, "not run, for the reason given"},
    VerdictRow{fail_stale_input, "FAIL_STALE_INPUT", bad,
               "a replay consumed the input of an earlier step"},
    VerdictRow{fail_stale_address, "FAIL_STALE_ADDRESS", bad,
               "a graph node refers to memory that was freed, handed out again or never written"},
    VerdictRow{fail_illegal_access, "FAIL_ILLEGAL_ACCESS", bad,
               "an access to unmapped memory of the device"},
    VerdictRow{fail_overwrite, "FAIL_OVERWRITE", bad,
               "a value still needed was overwritten in its graph-owned slot"},
    VerdictRow{fail_schedule_order, "FAIL_SCHEDULE_ORDER", bad,
               "graphs that share a pool replayed in another order than planned"},
    VerdictRow{fail_rng_state, "FAIL_RNG_STATE", bad,
               "replays do not draw the random numbers that eager draws"},
    VerdictRow{fail_rng_recompute, "FAIL_RNG_RECOMPUTE", bad,
               "recompute draws other random numbers than its forward"},
    VerdictRow{fail_state_frozen, "FAIL_STATE_FROZEN", bad,
               "a host value was captured and no longer advances"},
    VerdictRow{fail_fp8_state, "FAIL_FP8_STATE", bad,
               "the fp8 amax history or scale does not advance as in eager"},
    VerdictRow{fail_grad_accum, "FAIL_GRAD_ACCUM", bad,
               "gradients are accumulated, zeroed or stored wrongly"},
    VerdictRow{fail_truncation, "FAIL_TRUNCATION", bad,
               "more tokens than the captured capacity were dropped unseen"},
    VerdictRow{fail_missing_edge, "FAIL_MISSING_EDGE", bad,
               "producer and consumer in one graph are not ordered"},
    VerdictRow{fail_capture, "FAIL_CAPTURE", bad,
               "capture failed, or work ran while it was being captured"},
    VerdictRow{fail_recovery, "FAIL_RECOVERY", bad, "a failed capture was not unwound"},
    VerdictRow{fail_comm_nonuniform, "FAIL_COMM_NONUNIFORM", bad,
               "ranks disagree on capture, replay or eager execution"},
    VerdictRow{fail_comm_order, "FAIL_COMM_ORDER", bad,
               "ranks launched communicators in different orders"},
    VerdictRow{fail_stale_registration, "FAIL_STALE_REGISTRATION", bad,
               "a registration outlived the mapping behind it"},
    VerdictRow{fail_leak, "FAIL_LEAK", bad, "memory or objects grow over capture cycles"},
    VerdictRow{fail_nondeterminism, "FAIL_NONDETERMINISM", bad,
               "a run does not equal its own repeat"},
    VerdictRow{fail_teardown, "FAIL_TEARDOWN", bad, "a hang or fault while tearing down"},
    VerdictRow{fail_perf, "FAIL_PERF", bad, "replay is slower than it must be"},
    VerdictRow{fail_coverage, "FAIL_COVERAGE", bad,
               "what was to be graphed and replayed was not, or nothing was tested"},
    VerdictRow{fail_constraint_admitted, "FAIL_CONSTRAINT_ADMITTED", bad,
               "an illegal configuration was admitted or a legal one refused"},
    VerdictRow{fail_numeric_mismatch, "FAIL_NUMERIC_MISMATCH", bad,
               "graph and eager results differ, cause unknown"},
    VerdictRow{fail_suite, "FAIL_SUITE", bad,
               "a control of the suite itself failed: its other verdicts cannot be trusted"},
    VerdictRow{crash, "CRASH", bad, "a worker died"},
    VerdictRow{hang, "HANG", bad, "a deadline was missed"},
    VerdictRow{flaky, "FLAKY", bad, "attempts ended differently"},
    VerdictRow{inconclusive_env, "INCONCLUSIVE_ENV", environment,
               "the environment, not the workload, is at fault"},
};

constexpr bool rows_follow_enumerators() {
  for (std::size_t i = 0; i < verdict_rows.size(); ++i) {
    if (static_cast<std::size_t>(verdict_rows.at(i).verdict) != i) return false;
  }
  return verdict_rows.size() == static_cast<std::size_t>(inconclusive_env) + 1;
}
static_assert(rows_follow_enumerators());

/// From the cause to its consequences: the earlier one explains the later ones.
constexpr std::array cause_order_rows{
    fail_suite,
    fail_illegal_access,
    crash,
    hang,
    fail_teardown,
    inconclusive_env,
    fail_comm_nonuniform,
    fail_comm_order,
    fail_stale_registration,
    fail_stale_address,
    fail_missing_edge,
    fail_schedule_order,
    fail_stale_input,
    fail_overwrite,
    fail_rng_state,
    fail_rng_recompute,
    fail_fp8_state,
    fail_state_frozen,
    fail_truncation,
    fail_grad_accum,
    fail_capture,
    fail_recovery,
    fail_coverage,
    fail_constraint_admitted,
    fail_nondeterminism,
    fail_leak,
    fail_numeric_mismatch,
    fail_perf,
    flaky,
};

}  // namespace

std::span<const VerdictRow> verdict_table() {
  return verdict_rows;
}

std::string_view verdict_name(Verdict verdict) {
  return verdict_rows.at(static_cast<std::size_t>(verdict)).name;
}

std::optional<Verdict> parse_verdict(std::string_view name) {
  const auto* row = std::find_if(verdict_rows.begin(), verdict_rows.end(),
                                 [&](const VerdictRow& r) { return r.name == name; });
  if (row == verdict_rows.end()) return std::nullopt;
  return row->verdict;
}

VerdictClass verdict_class(Verdict verdict) {
  return verdict_rows.at(static_cast<std::size_t>(verdict)).verdict_class;
}

std::span<const Verdict> cause_order() {
  return cause_order_rows;
}

std::size_t cause_rank(Verdict verdict) {
  const auto* place = std::find(cause_order_rows.begin(), cause_order_rows.end(), verdict);
  return static_cast<std::size_t>(place - cause_order_rows.begin());
}

}  // namespace cgconform::suites

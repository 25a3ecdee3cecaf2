#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace cgconform::suites {

/// What a check or a cell ends with.
enum class Verdict : std::uint8_t {
  pass,
  guard_lifted,  ///< as pass, but a guard was off: counted apart, never as conformant
  baseline,      ///< an eager-against-eager cell: counted apart, never as a passed graph test
  rejected_constraint,
  skip,
  fail_stale_input,
  fail_stale_address,
  fail_illegal_access,
  fail_overwrite,
  fail_schedule_order,
  fail_rng_state,
  fail_rng_recompute,
  fail_state_frozen,
  fail_fp8_state,
  fail_grad_accum,
  fail_truncation,
  fail_missing_edge,
  fail_capture,
  fail_recovery,
  fail_comm_nonuniform,
  fail_comm_order,
  fail_stale_registration,
  fail_leak,
  fail_nondeterminism,
  fail_teardown,
  fail_perf,
  fail_coverage,
  fail_constraint_admitted,
  fail_numeric_mismatch,
  fail_suite,  ///< the suite's own control failed: its other verdicts cannot be trusted
  crash,
  hang,
  flaky,
  inconclusive_env,
};

/// Effect of a verdict on the run's exit code.
enum class VerdictClass : std::uint8_t { good, refused, skipped, bad, environment };

struct VerdictRow {
  Verdict verdict;
  std::string_view name;  ///< as printed and stored, such as FAIL_STALE_INPUT
  VerdictClass verdict_class;
  std::string_view meaning;
};

/// The table of verdicts, in enumerator order.
std::span<const VerdictRow> verdict_table();
std::string_view verdict_name(Verdict verdict);
std::optional<Verdict> parse_verdict(std::string_view name);
VerdictClass verdict_class(Verdict verdict);
inline bool is_bad(Verdict verdict) {
  return verdict_class(verdict) == VerdictClass::bad;
}

/// Failing verdicts from causes to consequences: where several checks fire, the one whose verdict
/// stands first here decides and the others are secondary.
std::span<const Verdict> cause_order();
/// Position in `cause_order`; verdicts that are no failure come after all of them.
std::size_t cause_rank(Verdict verdict);

}  // namespace cgconform::suites

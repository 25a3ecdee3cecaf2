#include "suites/leg_errors.hpp"

#include <charconv>

#include <fmt/format.h>

#include "matrix/error.hpp"
#include "suites/graph_topology.hpp"

namespace cgconform::suites {

using workloads::ErrorCategory;
using workloads::LegKind;
using workloads::Phase;

namespace {

constexpr std::string_view outcome_prefix = "outcome ";

struct FailureMeaning {
  std::string_view check_id;
  Verdict verdict;
};

bool is_capture_category(ErrorCategory category) {
  return category >= ErrorCategory::stream_capture_unsupported &&
         category <= ErrorCategory::stream_capture_wrong_thread;
}

FailureMeaning meaning_of(const LegFailure& failure) {
  const LegOutcome& outcome = failure.outcome;
  if (outcome.category == ErrorCategory::illegal_address) {
    return {"MEM-07", Verdict::fail_illegal_access};
  }
  if (outcome.phase == Phase::teardown) return {"SUI-04", Verdict::fail_teardown};
  switch (outcome.category) {
    case ErrorCategory::communicator_mismatch:
      return {"COM-09", Verdict::fail_comm_nonuniform};
    case ErrorCategory::communicator_order:
      return {"COM-09", Verdict::fail_comm_order};
    case ErrorCategory::communicator_timeout:
      return {"SUI-05", Verdict::hang};
    case ErrorCategory::communicator_error:
      return {"SUI-04", Verdict::crash};
    default:
      break;
  }
  const bool in_window = outcome.phase == Phase::capture || outcome.phase == Phase::instantiate;
  if (in_window || is_capture_category(outcome.category)) {
    return {"LIF-01", Verdict::fail_capture};
  }
  // A cell that does not fit into the device's memory without graphs says nothing about them.
  if (failure.leg.kind == LegKind::eager && outcome.category == ErrorCategory::memory_allocation) {
    return {"SUI-04", Verdict::inconclusive_env};
  }
  // Eager work that fails is no statement about graphs: nothing can be compared with it.
  if (failure.leg.kind == LegKind::eager) return {"SUI-04", Verdict::fail_suite};
  return {"SUI-04", Verdict::fail_numeric_mismatch};
}

template <typename Number>
Number parse_number(std::string_view text) {
  Number number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) {
    throw InternalError(fmt::format("'{}' in a leg's outcome is no number", text));
  }
  return number;
}

}  // namespace

bool LegOutcome::is_consequence() const {
  return category == ErrorCategory::communicator_error ||
         category == ErrorCategory::communicator_timeout;
}

std::string LegOutcome::encode() const {
  return fmt::format("{}{} {} {} {}", outcome_prefix, static_cast<int>(category),
                     static_cast<int>(phase), topology, error);
}

bool LegOutcome::is_outcome(std::string_view text) {
  return text.starts_with(outcome_prefix);
}

LegOutcome LegOutcome::decode(std::string_view text) {
  if (is_outcome(text)) text.remove_prefix(outcome_prefix.size());
  const auto first = text.find(' ');
  const auto second = first == std::string_view::npos ? first : text.find(' ', first + 1);
  const auto third = second == std::string_view::npos ? second : text.find(' ', second + 1);
  if (third == std::string_view::npos) {
    throw InternalError(fmt::format("'{}' is no outcome of a leg", text));
  }
  return {
      .category = static_cast<ErrorCategory>(parse_number<int>(text.substr(0, first))),
      .phase = static_cast<Phase>(parse_number<int>(text.substr(first + 1, second - first - 1))),
      .error = std::string(text.substr(third + 1)),
      .topology = parse_number<std::uint64_t>(text.substr(second + 1, third - second - 1))};
}

LegOutcome outcome_of(const workloads::LegRecord& record) {
  return {.category = record.error_category,
          .phase = record.error_phase,
          .error = record.error,
          .topology = leg_topology(record)};
}

std::optional<LegFailure> find_failure(const workloads::LegRequest& leg,
                                       std::span<const LegOutcome> outcomes) {
  std::optional<LegFailure> failure;
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
    const LegOutcome& outcome = outcomes[rank];
    if (!outcome.failed()) continue;
    const bool explains_more =
        !failure || (failure->outcome.is_consequence() && !outcome.is_consequence());
    if (explains_more) failure = LegFailure{leg, outcome, static_cast<int>(rank)};
  }
  return failure;
}

CheckResult judge_failure(const LegFailure& failure, int own_rank) {
  const FailureMeaning meaning = meaning_of(failure);
  const std::string who =
      failure.rank == own_rank ? "" : fmt::format("rank {} of the gang failed: ", failure.rank);
  return {
      .check_id = std::string(meaning.check_id),
      .verdict = meaning.verdict,
      .detail = fmt::format("{}the {} leg ended in phase {}: {}", who, leg_name(failure.leg),
                            workloads::phase_name(failure.outcome.phase), failure.outcome.error)};
}

}  // namespace cgconform::suites

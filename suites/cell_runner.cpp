#include "suites/cell_runner.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "matrix/error.hpp"
#include "suites/cell_plan.hpp"
#include "suites/coverage_plan.hpp"
#include "suites/difference_control.hpp"
#include "suites/leg_errors.hpp"
#include "suites/leg_set.hpp"
#include "suites/work_counts.hpp"

namespace cgconform::suites {
namespace {

using workloads::Communicator;
using workloads::LegRequest;

int rank_in(const Communicator* gang) {
  return gang == nullptr ? 0 : gang->rank();
}

/// Names the first rank whose digest is not that of rank 0; empty where all agree.
std::optional<CheckResult> find_disagreement(const std::string& digest, Communicator* gang) {
  if (gang == nullptr) return std::nullopt;
  const auto digests = gang->exchange(digest);
  for (std::size_t rank = 1; rank < digests.size(); ++rank) {
    if (digests[rank] == digests[0]) continue;
    return CheckResult{
        .check_id = "SUI-04",
        .verdict = Verdict::fail_suite,
        .detail = fmt::format("rank {} of the gang plans another cell than rank 0: digests {} and "
                              "{}",
                              rank, digests[rank], digests[0])};
  }
  return std::nullopt;
}

std::vector<LegOutcome> gather_outcomes(const LegOutcome& mine, Communicator* gang) {
  if (gang == nullptr) return {mine};
  std::vector<std::string> texts = gang->exchange(mine.encode());
  // A peer that was still in the leg has now heard that it is over, and comes here with its error.
  while (!std::all_of(texts.begin(), texts.end(), LegOutcome::is_outcome)) {
    texts = gang->exchange(mine.encode());
  }
  std::vector<LegOutcome> outcomes;
  for (const std::string& text : texts) outcomes.push_back(LegOutcome::decode(text));
  return outcomes;
}

/// What this rank can still say once its context has ended: the cause. The end counts as the
/// worker's own, so that its peers, which wait for it in their communicator, are stopped at once.
void report_ended_context(const LegFailure& failure, RankReport& report) {
  const CheckResult cause = judge_failure(failure, report.rank);
  const bool illegal = cause.verdict == Verdict::fail_illegal_access;
  report.abnormal_end =
      AbnormalEnd{.verdict = illegal ? Verdict::fail_illegal_access : Verdict::crash,
                  .phase = std::string(workloads::phase_name(failure.outcome.phase))};
  report.checks.push_back(cause);
}

/// Runs the legs in order up to the first that fails on any rank; the others stay without a run.
std::optional<LegFailure> run_legs(const matrix::Cell& cell, const CellPlan& plan,
                                   const LegSource& run_leg, Communicator* gang, LegSet& legs) {
  std::optional<LegFailure> failure;
  for (const LegRequest& request : plan.legs) {
    LegState state;
    if (!failure) {
      state.leg = run_leg(cell, request);
      state.ran = true;
      const LegOutcome outcome = outcome_of(state.record());
      if (workloads::ends_context(outcome.category)) {
        failure = LegFailure{request, outcome, rank_in(gang)};
        legs.add(request, std::move(state));
        return failure;
      }
      const std::vector<LegOutcome> outcomes = gather_outcomes(outcome, gang);
      failure = find_failure(request, outcomes);
      for (const LegOutcome& of_rank : outcomes) state.topologies.push_back(of_rank.topology);
      if (failure && failure->rank != rank_in(gang)) state.peer_error = failure->outcome.error;
    }
    legs.add(request, std::move(state));
  }
  return failure;
}

bool can_judge(const CheckDefinition& check, const matrix::Cell& cell, const LegSet& legs) {
  const auto requests = check.legs(cell);
  return std::all_of(requests.begin(), requests.end(), [&](const LegRequest& request) {
    const LegState& state = legs.state(request);
    return state.complete() || check.judges_partial_legs;
  });
}

CheckResult judge_one(const CheckDefinition& check, JudgeContext& context) {
  CheckResult result;
  try {
    result = check.judge(context);
  } catch (const workloads::DeviceError& error) {
    result.verdict = check.failure;
    result.detail = error.what();
  } catch (const InternalError& error) {
    result.verdict = Verdict::fail_suite;
    result.detail = error.what();
  }
  result.check_id = check.id;
  return result;
}

/// True where scenarios of checks on `own` run among those of `scenarios`.
bool runs_among(CheckSubject scenarios, CheckSubject own) {
  const bool alone = scenarios == CheckSubject::device_scenario;
  if (own == CheckSubject::cell) return alone;
  if (own == CheckSubject::runner) return alone || scenarios == CheckSubject::gang_scenario;
  return own == scenarios;
}

/// What the controls of the comparison overlooked in this cell; empty where they held.
std::string control_failure(const matrix::Cell& cell, const LegSet& legs, workloads::Device& device,
                            ControlledComparator& comparator) {
  const std::string overlooked = find_overlooked_difference(cell, legs, device, comparator);
  return comparator.control_failure().empty() ? overlooked : comparator.control_failure();
}

}  // namespace

RankReport run_cell(const matrix::Cell& cell, const CellRunOptions& options,
                    const LegSource& run_leg, const CellEnvironment& environment) {
  Communicator* gang = environment.gang;
  const CellPlan plan = plan_cell(cell, options.checks);
  RankReport report{.rank = rank_in(gang),
                    .world_rank = options.world_rank,
                    .host = options.host,
                    .device = environment.device.properties().kind,
                    .cell_digest = plan_digest(plan, options.cell_id, options.seed)};
  if (auto disagreement = find_disagreement(report.cell_digest, gang)) {
    report.checks.push_back(std::move(*disagreement));
    return report;
  }

  ControlledComparator comparator(environment.device, environment.comparator, environment.controls);
  LegSet legs(cell, comparator);
  const auto failure = run_legs(cell, plan, run_leg, gang, legs);
  if (environment.progress != nullptr) {
    environment.progress->enter_phase(workloads::Phase::verify);
  }
  if (failure && workloads::ends_context(failure->outcome.category)) {
    report_ended_context(*failure, report);
    return report;
  }
  if (failure) report.checks.push_back(judge_failure(*failure, report.rank));

  JudgeContext context{cell, legs, report.rank};
  // That nothing was there to judge is no finding where a leg ended early: the end is.
  const auto add = [&](CheckResult result) {
    if (failure && result.verdict == Verdict::fail_coverage) return;
    report.checks.push_back(std::move(result));
  };
  const auto has_none = [&, none = captures_elsewhere_only(cell, report.rank),
                         none_of_layers = captures_elsewhere_only(
                             cell, report.rank, GraphsOf::layers)](std::optional<GraphsOf> judged) {
    return judged && (*judged == GraphsOf::layers ? none_of_layers : none);
  };
  for (const CheckDefinition* check : plan.checks) {
    if (has_none(check->judges_graphs)) {
      add({.check_id = std::string(check->id),
           .verdict = Verdict::skip,
           .detail = "the rank's stage has no layer in the scope of graphs"});
      continue;
    }
    if (can_judge(*check, cell, legs)) add(judge_one(*check, context));
  }
  count_work(cell, legs, comparator, report);
  add(judge_work(cell, legs, report));
  const std::string control = control_failure(cell, legs, environment.device, comparator);
  if (!control.empty()) {
    report.checks.push_back({.check_id = "NUM-33",
                             .verdict = Verdict::fail_suite,
                             .detail = fmt::format("comparator control failed: {}", control)});
  }
  if (environment.progress != nullptr) {
    environment.progress->enter_phase(workloads::Phase::teardown);
  }
  return report;
}

const CheckResult* deciding_check(std::span<const CheckResult> checks) {
  const CheckResult* deciding = nullptr;
  for (const CheckResult& check : checks) {
    if (cause_rank(check.verdict) == cause_order().size()) continue;
    if (deciding == nullptr || cause_rank(check.verdict) < cause_rank(deciding->verdict)) {
      deciding = &check;
    }
  }
  return deciding;
}

RankReport run_scenarios(CheckSubject subject, ScenarioContext& context,
                         std::span<const CheckDefinition> checks) {
  RankReport report;
  if (context.device != nullptr) report.device = context.device->properties().kind;
  for (const CheckDefinition& check : checks) {
    if (check.scenario == nullptr || !runs_among(subject, check.subject)) continue;
    const auto start = std::chrono::steady_clock::now();
    CheckResult result;
    try {
      result = check.scenario(context);
    } catch (const Error& error) {
      result.verdict = check.failure;
      result.detail = error.what();
    }
    result.check_id = check.id;
    const std::chrono::duration<double, std::milli> spent =
        std::chrono::steady_clock::now() - start;
    report.measurements[fmt::format("{} ms", check.id)] = spent.count();
    report.checks.push_back(std::move(result));
  }
  return report;
}

}  // namespace cgconform::suites

#include "harness/probe_plan.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/probe_report.hpp"
#include "harness/protocol.hpp"
#include "harness/selftest_plan.hpp"
#include "harness/switch_names.hpp"
#include "matrix/cell_name.hpp"
#include "matrix/error.hpp"
#include "matrix/nearest_name.hpp"
#include "suites/cell_plan.hpp"

namespace cgconform::harness {
namespace {

using suites::CellResult;
using suites::Probe;
using suites::Verdict;

/// Where a hang is what comes out, nothing long is to be waited for.
constexpr double hanging_deadline_scale = 0.05;

matrix::CellName probe_name(const Probe& probe) {
  matrix::CellName name;
  name.id = fmt::format("probe={}", probe.name());
  name.hash = matrix::hash_text(matrix::hash_id(name.id));
  return name;
}

int ranks_of(const Probe& probe) {
  if (probe.cell) return probe.cell->ranks();
  return probe.selftest_row.empty() ? 1 : selftest_row(probe.selftest_row).scenario_ranks;
}

std::vector<std::string> lifted_rules(const Probe& probe) {
  std::vector<std::string> rules{std::string(probe.rule)};
  for (const std::string_view rule : probe.beside) rules.emplace_back(rule);
  return rules;
}

PlannedCell planned_probe(const Probe& probe) {
  PlannedCell planned;
  planned.name = probe_name(probe);
  planned.ranks = ranks_of(probe);
  planned.fresh = true;
  planned.lifted = lifted_rules(probe);
  if (probe.cell) {
    planned.cell = *probe.cell;
    planned.environment = matrix::cell_environment(*probe.cell);
  }
  for (const workloads::Fault fault : probe.switches) planned.faults.emplace_back(fault_id(fault));
  if (!probe.selftest_row.empty()) {
    const suites::SelftestRow& row = selftest_row(probe.selftest_row);
    for (const workloads::Fault fault : row.faults) planned.faults.emplace_back(fault_id(fault));
    planned.scenario = selftest_scenario + row.id;
  }
  if (probe.expected == Verdict::hang) planned.deadline_scale = hanging_deadline_scale;
  return planned;
}

class ProbeSource final : public CellSource {
 public:
  ProbeSource(std::vector<const Probe*> probes, matrix::TargetDevice device, int ranks)
      : probes_(std::move(probes)), device_(device), ranks_(ranks) {
    counts_.total = probes_.size();
    counts_.skipped = static_cast<std::uint64_t>(
        std::count_if(probes_.begin(), probes_.end(),
                      [&](const Probe* probe) { return !why_skipped(*probe).empty(); }));
    counts_.run = counts_.total - counts_.skipped;
  }
  const reports::PlannedCounts& counts() const override { return counts_; }
  std::optional<SourceItem> next() override {
    if (next_ == probes_.size()) return std::nullopt;
    const Probe& probe = *probes_[next_++];
    const std::string reason = why_skipped(probe);
    if (reason.empty()) return planned_probe(probe);
    CellResult skipped;
    const matrix::CellName name = probe_name(probe);
    skipped.id = name.id;
    skipped.hash = name.hash;
    skipped.verdict = Verdict::skip;
    skipped.reason = reason;
    return skipped;
  }

 private:
  std::string why_skipped(const Probe& probe) const {
    std::string reason = suites::why_not_shown(probe, device_);
    if (!reason.empty()) return reason;
    if (ranks_of(probe) <= ranks_) return {};
    return fmt::format("too few ranks: needs {}, the run has {}", ranks_of(probe), ranks_);
  }

  std::vector<const Probe*> probes_;
  matrix::TargetDevice device_;
  int ranks_;
  reports::PlannedCounts counts_;
  std::size_t next_ = 0;
};

bool fired(const CellResult& result, std::string_view check_id) {
  return check_id.empty() || result.check_id == check_id ||
         std::any_of(result.secondary.begin(), result.secondary.end(),
                     [&](const std::string& text) {
                       return text.starts_with(fmt::format("{} ", check_id));
                     });
}

ProbeOutcome outcome_of(const Probe& probe, const CellResult& result) {
  ProbeOutcome outcome;
  outcome.verdict = result.verdict;
  outcome.check_id = result.check_id;
  outcome.rank = result.failing_rank;
  outcome.reason = result.reason;
  if (result.verdict == Verdict::guard_lifted) {
    outcome.kind = ProbeOutcome::Kind::nothing;
    outcome.as_expected = !probe.expected;
    return outcome;
  }
  outcome.kind = ProbeOutcome::Kind::needed;
  outcome.as_expected = probe.expected == result.verdict && fired(result, probe.check_id);
  return outcome;
}

std::string seen_text(const ProbeOutcome& outcome) {
  if (outcome.kind == ProbeOutcome::Kind::nothing) return "nothing happened";
  return fmt::format("{}{}{}", suites::verdict_name(outcome.verdict),
                     outcome.check_id.empty() ? "" : fmt::format(" by {}", outcome.check_id),
                     outcome.rank < 0 ? "" : fmt::format(" on rank {}", outcome.rank));
}

CellResult conclude(const Probe& probe, const ProbeOutcome& outcome, CellResult result) {
  if (!outcome.as_expected) return result;
  result.verdict = Verdict::pass;
  result.reason = fmt::format("{}: {}, as the table says", probe.protects, seen_text(outcome));
  result.reproducer.clear();
  result.check_id.clear();
  result.failing_rank = -1;
  result.secondary.clear();
  return result;
}

}  // namespace

std::vector<const Probe*> chosen_probes(const RunOptions& options) {
  std::vector<const Probe*> chosen;
  const auto table = suites::probe_table();
  for (const std::string& name : options.probes) {
    const std::size_t before = chosen.size();
    for (const Probe& probe : table) {
      if (probe.name() == name || probe.rule == name) chosen.push_back(&probe);
    }
    if (chosen.size() > before) continue;
    std::vector<std::string> names;
    for (const Probe& probe : table) names.push_back(probe.name());
    const std::vector<std::string_view> known(names.begin(), names.end());
    throw InputError(
        fmt::format("--only: unknown probe '{}'{}", name, matrix::nearest_hint(name, known)));
  }
  if (options.probes.empty()) {
    for (const Probe& probe : table) chosen.push_back(&probe);
  }
  return chosen;
}

RunPlan plan_probe(const RunOptions& options, const std::string& device, int ranks) {
  const std::vector<const Probe*> probes = chosen_probes(options);
  std::map<std::string, const Probe*> by_hash;
  for (const Probe* probe : probes) by_hash[probe_name(*probe).hash] = probe;
  const auto outcomes = std::make_shared<ProbeOutcomes>();

  RunPlan plan;
  plan.source = std::make_unique<ProbeSource>(
      probes, device == "cuda" ? matrix::TargetDevice::cuda : matrix::TargetDevice::reference,
      ranks);
  plan.matrix_name = "probe";
  plan.reproducer = [options, by_hash](const PlannedCell& planned) {
    return fmt::format("{} probe --only {} --seed {}", program_line(options, planned.ranks),
                       shell_quoted(by_hash.at(planned.name.hash)->name()), options.seed);
  };
  plan.conclude = [by_hash, outcomes](CellResult result) {
    const Probe& probe = *by_hash.at(result.hash);
    const ProbeOutcome outcome = outcome_of(probe, result);
    (*outcomes)[result.hash] = outcome;
    return conclude(probe, outcome, std::move(result));
  };
  plan.report = [by_hash, outcomes](const std::filesystem::path& folder) {
    return probe_report(folder, by_hash, outcomes);
  };
  return plan;
}

}  // namespace cgconform::harness

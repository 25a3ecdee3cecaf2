#include "suites/selftest_tampering.hpp"

#include <array>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "matrix/error.hpp"
#include "suites/checks/constraint_tables.hpp"
#include "suites/checks/selection_checks.hpp"

namespace cgconform::suites {
namespace {

/// A rule and the check that must see when it is wrong.
struct GuardedRule {
  std::string_view rule;
  std::string_view check_id;
  bool by_callables = false;  ///< it also guards captures by transformer_engine
};

constexpr std::array guarded_rules{
    GuardedRule{"full-iter-no-modules", "CON-01"},
    GuardedRule{"moe-xor-router", "CON-02", true},
    GuardedRule{"preprocess-needs-router", "CON-03", true},
    GuardedRule{"moe-scope-needs-moe-model", "CON-04", true},
    GuardedRule{"mlp-scope-needs-dense-layer", "CON-05", true},
    GuardedRule{"moe-scope-needs-drop-and-pad", "CON-06", true},
    GuardedRule{"preprocess-no-dtoh", "CON-07", true},
    GuardedRule{"recompute-full-needs-full-iteration", "CON-08", true},
    GuardedRule{"recompute-moe-vs-router-te", "CON-09", true},
    GuardedRule{"graphed-recompute-attn-dropout", "CON-10", true},
    GuardedRule{"graphed-recompute-hidden-dropout", "CON-11", true},
    GuardedRule{"graphed-recompute-moe-jitter", "CON-12", true},
    GuardedRule{"expandable-segments-te", "CON-13", true},
    GuardedRule{"expandable-segments-local-pre-sm100", "CON-13"},
    GuardedRule{"expandable-segments-full-iteration", "CON-13"},
    GuardedRule{"full-iter-nan-check", "CON-14"},
    GuardedRule{"cpu-offload-per-layer", "CON-15", true},
    GuardedRule{"fgao-local-modules", "CON-15"},
    GuardedRule{"fgao-local-not-whole-layer", "CON-15"},
    GuardedRule{"fgao-no-moe-scope", "CON-15", true},
    GuardedRule{"fgao-warmup-positive", "CON-15", true},
    GuardedRule{"fgao-no-cpu-offload", "CON-15", true},
    GuardedRule{"fgao-full-iter-inflight", "CON-15"},
    GuardedRule{"ep-overlap-te-scope", "CON-16", true},
    GuardedRule{"delay-wgrad-graph-ga-fusion", "CON-16", true},
    GuardedRule{"delay-wgrad-graph-no-attn-bias", "CON-16", true},
    GuardedRule{"scope-rename", "CON-19"},
    GuardedRule{"moe-xor-router", "CON-20", true},
    GuardedRule{"graphed-recompute-attn-dropout", "CON-20", true},
};

constexpr std::array tamperings{
    std::pair{RuleTampering::dropped, "dropped"},
    std::pair{RuleTampering::weakened, "weakened"},
    std::pair{RuleTampering::overeager, "overeager"},
};

matrix::Classification run_as_graph(const matrix::Classification& found) {
  matrix::Classification lie = found;
  lie.status = matrix::CellStatus::run;
  lie.kind = matrix::CellKind::graph;
  return lie;
}

/// Looks at two ranks only.
std::optional<OddRank> ask_two_ranks(std::span<const std::string> answers) {
  return find_odd_rank(answers.first(2));
}

/// Every shard but the first leaves its last cell out.
std::vector<std::string> lose_a_cell(const matrix::Matrix& matrix,
                                     const matrix::PlanOptions& options, std::uint64_t round) {
  auto ids = checks::selected_ids(matrix, options, round);
  if (options.shard.index > 1 && !ids.empty()) ids.pop_back();
  return ids;
}

/// A shard by place in the list: a filter moves cells.
std::vector<std::string> shard_by_place(const matrix::Matrix& matrix,
                                        const matrix::PlanOptions& options, std::uint64_t round) {
  matrix::PlanOptions whole = options;
  whole.shard = {};
  const auto all = checks::selected_ids(matrix, whole, round);
  std::vector<std::string> ids;
  for (std::size_t i = options.shard.index - 1; i < all.size(); i += options.shard.count) {
    ids.push_back(all[i]);
  }
  return ids;
}

std::vector<std::string> ignore_the_filter(const matrix::Matrix& matrix,
                                           const matrix::PlanOptions& options,
                                           std::uint64_t round) {
  matrix::PlanOptions all = options;
  all.filter.clear();
  return checks::selected_ids(matrix, all, round);
}

std::vector<std::string> accept_nothing(const matrix::Matrix& matrix,
                                        const matrix::PlanOptions& options, std::uint64_t round) {
  matrix::PlanOptions allowed = options;
  allowed.allow_empty = true;
  return checks::selected_ids(matrix, allowed, round);
}

struct Lie {
  std::string_view id;
  std::string_view check_id;
  Verdict expected;
  std::string_view statement;
  CheckResult (*scenario)(ScenarioContext& context);
};

constexpr std::array lies{
    Lie{"scopes-of-none-run-as-graphs", "CON-18", Verdict::fail_constraint_admitted,
        "cells without graphs are run as graph tests",
        [](ScenarioContext&) { return checks::judge_scopes_without_graphs_through(run_as_graph); }},
    Lie{"vote-of-two-ranks", "CON-21", Verdict::fail_constraint_admitted,
        "only two ranks are asked for their verdict",
        [](ScenarioContext& context) {
          return checks::judge_same_verdict_by(ask_two_ranks, context);
        }},
    Lie{"shard-loses-a-cell", "SUI-07", Verdict::fail_suite, "a cell is in no shard",
        [](ScenarioContext&) { return checks::judge_selection_by(lose_a_cell); }},
    Lie{"shard-by-place", "SUI-07", Verdict::fail_suite, "a filter moves cells between shards",
        [](ScenarioContext&) { return checks::judge_selection_by(shard_by_place); }},
    Lie{"filter-ignored", "SUI-07", Verdict::fail_suite, "the filter is not obeyed",
        [](ScenarioContext&) { return checks::judge_selection_by(ignore_the_filter); }},
    Lie{"empty-selection-accepted", "SUI-08", Verdict::fail_suite,
        "a selection without a cell is taken",
        [](ScenarioContext&) { return checks::judge_empty_selection_by(accept_nothing); }},
};

}  // namespace

std::vector<SelftestRow> tampering_rows() {
  std::vector<SelftestRow> rows;
  for (const GuardedRule& guarded : guarded_rules) {
    const CheckDefinition* check = find_check(guarded.check_id);
    if (check == nullptr) {
      throw InternalError(fmt::format("the check {} is not built", guarded.check_id));
    }
    for (const auto& [tampering, name] : tamperings) {
      if (tampering == RuleTampering::weakened && !guarded.by_callables) continue;
      rows.push_back({.id = fmt::format("F35/{}/{}/{}", guarded.check_id, guarded.rule, name),
                      .kind = SelftestKind::sabotage,
                      .statement = fmt::format("the rule {} is {}", guarded.rule, name),
                      .scenario = check->scenario,
                      .tampering = tampering,
                      .tampered_rule = guarded.rule,
                      .expected = Verdict::fail_constraint_admitted,
                      .check_id = std::string(guarded.check_id)});
    }
  }
  for (const Lie& lie : lies) {
    rows.push_back({.id = std::string(lie.id),
                    .kind = SelftestKind::sabotage,
                    .statement = std::string(lie.statement),
                    .scenario = lie.scenario,
                    .expected = lie.expected,
                    .check_id = std::string(lie.check_id)});
  }
  return rows;
}

}  // namespace cgconform::suites

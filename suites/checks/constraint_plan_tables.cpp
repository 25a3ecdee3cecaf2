#include <array>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "matrix/cell_plan.hpp"
#include "matrix/environment.hpp"
#include "suites/checks/constraint_cases.hpp"
#include "suites/checks/constraint_tables.hpp"
#include "suites/merge.hpp"

namespace cgconform::suites::checks {
namespace {

using matrix::CudaGraphImpl;
using matrix::CudaGraphModule;
using matrix::CudaGraphScope;
using matrix::Ruleset;
using matrix::TrainingConfig;

CheckResult admitted(std::string detail) {
  return {.verdict = Verdict::fail_constraint_admitted, .detail = std::move(detail)};
}

/// Two ways to write one configuration.
struct Spelling {
  std::string_view name;
  Ruleset ruleset;
  TrainingConfig deprecated;
  TrainingConfig current;
};

std::vector<Spelling> spellings() {
  TrainingConfig unset = legal_local();
  unset.cuda_graph_impl = CudaGraphImpl::none;
  std::vector<Spelling> rows;
  for (const Ruleset ruleset : {Ruleset::cgconform, Ruleset::mcore_0_20}) {
    TrainingConfig flag = unset;
    flag.enable_cuda_graph = true;
    rows.push_back({"enable_cuda_graph", ruleset, flag, legal_local()});
    TrainingConfig modules = legal_local();
    modules.cuda_graph_modules = CudaGraphScope{CudaGraphModule::attn};
    rows.push_back({"scope of one module", ruleset, modules,
                    with_scope(legal_local(), {CudaGraphModule::attn})});
  }
  TrainingConfig external = unset;
  external.external_cuda_graph = true;
  TrainingConfig callables = unset;
  callables.cuda_graph_impl = CudaGraphImpl::transformer_engine;
  rows.push_back({"external_cuda_graph", Ruleset::mcore_0_20, external, callables});
  TrainingConfig iteration = unset;
  iteration.cuda_graph_impl = CudaGraphImpl::full_iteration;
  rows.push_back({"full_iteration as a scope of local", Ruleset::mcore_0_20, legal_full_iteration(),
                  iteration});
  rows.push_back({"full_iteration as a scope of none", Ruleset::mcore_0_20,
                  with_scope(unset, {CudaGraphModule::full_iteration}), iteration});
  return rows;
}

/// What a ruleset makes of a configuration: its normal form and the rules that it breaks.
struct Plan {
  TrainingConfig normalised;
  std::vector<std::string_view> rules;
  friend bool operator==(const Plan&, const Plan&) = default;
};

Plan plan_of(const TrainingConfig& config, Ruleset ruleset, const ScenarioContext& context) {
  matrix::Evaluation evaluation;
  matrix::evaluate(ruleset, matrix::Layers{matrix::Layer::config}, config, {}, evaluation);
  Plan plan;
  plan.normalised = evaluation.normalised;
  plan.rules = violated_rules(config, {}, context, ruleset);
  return plan;
}

constexpr std::string_view scopes_of_none = R"({"name": "none",
  "axes": {"impl": ["none", "local"],
           "scope": ["layer", "attn", "mlp", "attn+mlp", "moe_router", "full_iteration"],
           "recompute": ["none", "core_attn"]},
  "defaults": {"use_te_rng_tracker": true, "te_rng_tracker": true, "check_for_nan_in_loss": false,
               "check_for_nan_in_grad": false, "check_for_nan_in_loss_and_grad": false}})";

matrix::Classification as_found(const matrix::Classification& found) {
  return found;
}

/// A variable that one of the ranks has with another value than the others.
struct Stray {
  std::string_view name;
  std::string_view usual;
  std::string_view other;
};

constexpr std::array strays{
    Stray{"PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:False", "expandable_segments:True"},
    Stray{"PYTORCH_ALLOC_CONF", "expandable_segments:True", "expandable_segments:False"},
    Stray{"NCCL_GRAPH_REGISTER", "0", "1"},
};

/// What a rank says about a configuration under its own variables.
std::string answer_of(const TrainingConfig& config, const Stray& stray, bool odd,
                      const ScenarioContext& context) {
  matrix::EnvironmentBuilder builder({});
  // The rest of the environment is such that the variable decides.
  builder.set_variable("NCCL_GRAPH_REGISTER", "1");
  builder.set_variable("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True");
  builder.set_variable(stray.name, odd ? stray.other : stray.usual);
  return fmt::format("{}", fmt::join(violated_rules(config, builder.build(), context), " "));
}

}  // namespace

CheckResult judge_spellings(ScenarioContext& context) {
  for (const Spelling& row : spellings()) {
    if (plan_of(row.deprecated, row.ruleset, context) !=
        plan_of(row.current, row.ruleset, context)) {
      return admitted(
          fmt::format("{}: the deprecated and the current spelling give different "
                      "plans under {}",
                      row.name, matrix::ruleset_name(row.ruleset)));
    }
  }
  std::vector<ConstraintCase> cases;
  for (const Ruleset ruleset : {Ruleset::cgconform, Ruleset::mcore_0_20}) {
    TrainingConfig both = with_scope(legal_local(), {CudaGraphModule::attn});
    cases.push_back({"cuda_graph_scope alone", both, {}, "", ruleset});
    both.cuda_graph_modules = CudaGraphScope{CudaGraphModule::mlp};
    cases.push_back({"cuda_graph_scope and cuda_graph_modules", both, {}, "scope-rename", ruleset});
  }
  return judge_cases(cases, context);
}

CheckResult judge_scopes_without_graphs_through(LookAtCell look) {
  const matrix::CellPlan plan(matrix::read_matrix(scopes_of_none, "scopes of none"), {});
  std::optional<std::string> problem;
  int eager = 0;
  int graphs = 0;
  plan.for_each([&](const matrix::CellPlan::Entry& entry) {
    const matrix::Classification found = look(entry.classification);
    const bool runs = found.status == matrix::CellStatus::run;
    if (entry.cell.config.cuda_graph_impl != CudaGraphImpl::none) {
      graphs += runs && found.kind == matrix::CellKind::graph ? 1 : 0;
      return true;
    }
    ++eager;
    if (runs && found.kind != matrix::CellKind::baseline) {
      problem = fmt::format("{} captures nothing and is run as a graph test",
                            plan.expansion().name(entry.index).id);
    }
    return true;
  });
  if (problem) return admitted(*problem);
  if (eager == 0 || graphs == 0)
    return admitted("no cell with and no cell without graphs was seen");
  RankReport report;
  report.checks.push_back({"NUM-01", Verdict::baseline, "", std::nullopt});
  const CellResult merged =
      merge_reports({.index = 0, .id = "impl=none/scope=attn", .hash = "", .ranks = 1}, {report});
  if (merged.verdict != Verdict::baseline) {
    return admitted(fmt::format("eager against its own repeat is reported as {}",
                                verdict_name(merged.verdict)));
  }
  return {.detail = fmt::format("{} cells of impl none are baselines or duplicates, {} capture",
                                eager, graphs)};
}

CheckResult judge_scopes_without_graphs(ScenarioContext& /*context*/) {
  return judge_scopes_without_graphs_through(as_found);
}

CheckResult judge_same_verdict_by(RankVote vote, const ScenarioContext& context) {
  TrainingConfig config = legal_local();
  config.cuda_graph_impl = CudaGraphImpl::transformer_engine;
  int gangs = 0;
  for (const Stray& stray : strays) {
    for (const std::size_t ranks : {std::size_t{3}, std::size_t{4}, std::size_t{8}}) {
      std::vector<std::string> answers(ranks, answer_of(config, stray, false, context));
      if (vote(answers)) return admitted("ranks that agree are told to differ");
      for (std::size_t odd = 0; odd < ranks; ++odd) {
        std::vector<std::string> differing = answers;
        differing[odd] = answer_of(config, stray, true, context);
        const auto found = vote(differing);
        ++gangs;
        if (differing[odd] == answers.front()) {
          return admitted(fmt::format("{} changes no verdict", stray.name));
        }
        if (!found || found->rank != odd || found->other == odd) {
          return admitted(fmt::format("{} differs on rank {} of {}, and {} is named", stray.name,
                                      odd, ranks,
                                      found ? fmt::format("rank {}", found->rank) : "no rank"));
        }
      }
    }
  }
  return {.detail = fmt::format("the odd rank was named in {} gangs", gangs)};
}

CheckResult judge_same_verdict_on_all_ranks(ScenarioContext& context) {
  return judge_same_verdict_by(find_odd_rank, context);
}

}  // namespace cgconform::suites::checks

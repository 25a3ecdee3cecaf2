#include "suites/checks/constraint_cases.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "matrix/constraint_engine.hpp"

namespace cgconform::suites::checks {

using matrix::CudaGraphImpl;
using matrix::CudaGraphModule;
using matrix::TrainingConfig;

namespace {

void tamper(std::vector<std::string_view>& rules, const TrainingConfig& config,
            const ScenarioContext& context) {
  const auto found = std::find(rules.begin(), rules.end(), context.tampered_rule);
  const bool fires = found != rules.end();
  switch (context.tampering) {
    case RuleTampering::none:
      return;
    case RuleTampering::dropped:
      if (fires) rules.erase(found);
      return;
    case RuleTampering::weakened:
      if (fires && config.cuda_graph_impl == CudaGraphImpl::transformer_engine) rules.erase(found);
      return;
    case RuleTampering::overeager:
      if (!fires) rules.push_back(context.tampered_rule);
      return;
  }
}

}  // namespace

TrainingConfig legal_local() {
  TrainingConfig config;
  config.cuda_graph_impl = CudaGraphImpl::local;
  config.use_te_rng_tracker = true;
  config.te_rng_tracker = true;
  config.check_for_nan_in_loss = false;
  config.check_for_nan_in_grad = false;
  config.check_for_nan_in_loss_and_grad = false;
  return config;
}

TrainingConfig legal_full_iteration() {
  TrainingConfig config = legal_local();
  config.cuda_graph_scope = {CudaGraphModule::full_iteration};
  return config;
}

TrainingConfig legal_moe(CudaGraphImpl impl) {
  TrainingConfig config = legal_local();
  config.cuda_graph_impl = impl;
  config.num_moe_experts = 4;
  config.moe_layer_freq = {.every = 2};
  config.moe_expert_capacity_factor = 1.0F;
  config.moe_pad_expert_input_to_capacity = true;
  config.moe_token_dispatcher_type = matrix::MoeTokenDispatcherType::alltoall;
  return config;
}

TrainingConfig with_scope(TrainingConfig config, matrix::CudaGraphScope scope) {
  config.cuda_graph_scope = scope;
  return config;
}

std::vector<std::string_view> violated_rules(const TrainingConfig& config,
                                             const matrix::PlatformSettings& platform,
                                             const ScenarioContext& context,
                                             matrix::Ruleset ruleset) {
  matrix::Evaluation evaluation;
  const matrix::Layers layers = ruleset == matrix::Ruleset::cgconform
                                    ? matrix::all_layers
                                    : matrix::Layers{matrix::Layer::config};
  matrix::evaluate(ruleset, layers, config, platform, evaluation);
  std::vector<std::string_view> rules;
  for (const matrix::RuleIndex rule : evaluation.violations) {
    rules.push_back(matrix::rule_id(rule));
  }
  tamper(rules, config, context);
  return rules;
}

CheckResult judge_cases(const std::vector<ConstraintCase>& cases, const ScenarioContext& context) {
  std::size_t refused = 0;
  for (const ConstraintCase& one : cases) {
    const auto rules = violated_rules(one.config, one.platform, context, one.ruleset);
    if (one.rule.empty() && !rules.empty()) {
      return {
          .verdict = Verdict::fail_constraint_admitted,
          .detail = fmt::format("{}: legal, yet refused by {}", one.name, fmt::join(rules, ", "))};
    }
    if (one.rule.empty()) continue;
    ++refused;
    if (std::find(rules.begin(), rules.end(), one.rule) == rules.end()) {
      return {.verdict = Verdict::fail_constraint_admitted,
              .detail =
                  fmt::format("{}: {} must refuse it, {}", one.name, one.rule,
                              rules.empty() ? std::string("it was admitted")
                                            : fmt::format("only {} did", fmt::join(rules, ", ")))};
    }
  }
  return {.detail = fmt::format("{} configurations refused by their rule, {} neighbours admitted",
                                refused, cases.size() - refused)};
}

}  // namespace cgconform::suites::checks

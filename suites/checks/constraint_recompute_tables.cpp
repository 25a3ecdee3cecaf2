#include <array>
#include <utility>

#include <fmt/format.h>

#include "suites/checks/constraint_cases.hpp"
#include "suites/checks/constraint_tables.hpp"

namespace cgconform::suites::checks {
namespace {

using matrix::CudaGraphImpl;
using matrix::CudaGraphModule;
using matrix::CudaGraphScope;
using matrix::RecomputeGranularity;
using matrix::RecomputeModule;
using matrix::TrainingConfig;

constexpr std::array both{false, true};

TrainingConfig without_dropout(TrainingConfig config) {
  config.attention_dropout = 0.0F;
  config.hidden_dropout = 0.0F;
  return config;
}

TrainingConfig with_recompute(TrainingConfig config, RecomputeModule module) {
  config.recompute_granularity = RecomputeGranularity::selective;
  config.recompute_modules = matrix::RecomputeModules{module};
  return config;
}

/// A way to capture, with and without the module in question in what is captured.
struct Form {
  std::string name;
  TrainingConfig captured;
  TrainingConfig not_captured;
};

/// The module by itself, whole layers and the whole iteration, each beside the nearest capture that
/// leaves the module out.
std::vector<Form> forms_of(const TrainingConfig& base, CudaGraphModule module,
                           CudaGraphModule other) {
  std::vector<Form> forms;
  for (const LayerImpl& impl : layer_impls) {
    TrainingConfig config = base;
    config.cuda_graph_impl = impl.impl;
    const TrainingConfig rest = with_scope(config, CudaGraphScope{other});
    forms.push_back({fmt::format("the module by {}", impl.name),
                     with_scope(config, CudaGraphScope{module}), rest});
    forms.push_back({fmt::format("whole layers by {}", impl.name), with_scope(config, {}), rest});
  }
  TrainingConfig eager = base;
  eager.cuda_graph_impl = CudaGraphImpl::none;
  TrainingConfig iteration = base;
  iteration.cuda_graph_impl = CudaGraphImpl::local;
  forms.push_back({"the whole iteration",
                   with_scope(iteration, CudaGraphScope{CudaGraphModule::full_iteration}), eager});
  return forms;
}

/// What draws numbers that a recompute would have to draw again.
struct Draw {
  std::string_view name;
  void (*turn_on)(TrainingConfig& config);
};

constexpr Draw attention_dropout{"attention dropout",
                                 [](TrainingConfig& config) { config.attention_dropout = 0.1F; }};
constexpr Draw hidden_dropout{"hidden dropout",
                              [](TrainingConfig& config) { config.hidden_dropout = 0.1F; }};
constexpr Draw jitter{"router jitter",
                      [](TrainingConfig& config) { config.moe_input_jitter_eps = 0.01F; }};

/// The eight cells of draw x recompute x capture, for each form: refused where all three are on.
void add_eight_cells(std::vector<ConstraintCase>& cases, const std::vector<Form>& forms,
                     const Draw& draw, RecomputeModule recomputed, std::string_view rule) {
  for (const Form& form : forms) {
    for (const bool draws : both) {
      for (const bool recomputes : both) {
        for (const bool captures : both) {
          TrainingConfig config = captures ? form.captured : form.not_captured;
          if (draws) draw.turn_on(config);
          if (recomputes) config = with_recompute(config, recomputed);
          cases.push_back({fmt::format("{}: {} {}, recompute {}, capture {}", form.name, draw.name,
                                       draws ? "on" : "off", recomputes ? "on" : "off",
                                       captures ? "on" : "off"),
                           config,
                           {},
                           draws && recomputes && captures ? rule : std::string_view{}});
        }
      }
    }
  }
}

}  // namespace

CheckResult judge_moe_recompute_with_router(ScenarioContext& context) {
  std::vector<ConstraintCase> cases;
  constexpr std::array recomputed{std::pair{RecomputeModule::moe, "moe"},
                                  std::pair{RecomputeModule::core_attn, "core_attn"}};
  constexpr std::array scopes{std::pair{CudaGraphModule::moe_router, "moe_router"},
                              std::pair{CudaGraphModule::attn, "attn"}};
  for (const LayerImpl& impl : layer_impls) {
    for (const auto& [module, module_name] : recomputed) {
      for (const auto& [scope, scope_name] : scopes) {
        const TrainingConfig config = with_recompute(
            with_scope(without_dropout(legal_moe(impl.impl)), CudaGraphScope{scope}), module);
        const bool refused = impl.impl == CudaGraphImpl::transformer_engine &&
                             module == RecomputeModule::moe && scope == CudaGraphModule::moe_router;
        cases.push_back(
            {fmt::format("{} with {}, recompute of {}", impl.name, scope_name, module_name),
             config,
             {},
             refused ? "recompute-moe-vs-router-te" : ""});
      }
    }
  }
  return judge_cases(cases, context);
}

CheckResult judge_attention_dropout_recomputed(ScenarioContext& context) {
  std::vector<ConstraintCase> cases;
  add_eight_cells(
      cases, forms_of(without_dropout(legal_local()), CudaGraphModule::attn, CudaGraphModule::mlp),
      attention_dropout, RecomputeModule::core_attn, "graphed-recompute-attn-dropout");
  return judge_cases(cases, context);
}

CheckResult judge_hidden_dropout_recomputed(ScenarioContext& context) {
  constexpr std::string_view rule = "graphed-recompute-hidden-dropout";
  std::vector<ConstraintCase> cases;
  add_eight_cells(
      cases, forms_of(without_dropout(legal_local()), CudaGraphModule::mlp, CudaGraphModule::attn),
      hidden_dropout, RecomputeModule::mlp, rule);
  add_eight_cells(cases,
                  forms_of(without_dropout(legal_moe(CudaGraphImpl::local)), CudaGraphModule::moe,
                           CudaGraphModule::attn),
                  hidden_dropout, RecomputeModule::moe, rule);
  return judge_cases(cases, context);
}

CheckResult judge_router_jitter_recomputed(ScenarioContext& context) {
  std::vector<ConstraintCase> cases;
  add_eight_cells(cases,
                  forms_of(without_dropout(legal_moe(CudaGraphImpl::local)), CudaGraphModule::moe,
                           CudaGraphModule::attn),
                  jitter, RecomputeModule::moe, "graphed-recompute-moe-jitter");
  return judge_cases(cases, context);
}

}  // namespace cgconform::suites::checks

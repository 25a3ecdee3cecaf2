#include <array>

#include <fmt/format.h>

#include "suites/checks/constraint_audits.hpp"
#include "suites/checks/constraint_cases.hpp"
#include "suites/checks/constraint_tables.hpp"
#include "suites/checks/families.hpp"

namespace cgconform::suites::checks {
namespace {

using matrix::CudaGraphImpl;
using matrix::CudaGraphModule;
using matrix::CudaGraphScope;
using matrix::RecomputeGranularity;
using matrix::RecomputeMethod;
using matrix::TrainingConfig;

struct ModuleName {
  CudaGraphModule module;
  std::string_view name;
};

constexpr std::array module_names{
    ModuleName{CudaGraphModule::attn, "attn"},
    ModuleName{CudaGraphModule::mlp, "mlp"},
    ModuleName{CudaGraphModule::moe, "moe"},
    ModuleName{CudaGraphModule::moe_router, "moe_router"},
    ModuleName{CudaGraphModule::moe_preprocess, "moe_preprocess"},
    ModuleName{CudaGraphModule::mamba, "mamba"},
};

/// CON-01
CheckResult judge_full_iteration_alone(ScenarioContext& context) {
  std::vector<ConstraintCase> cases{{"full_iteration alone", legal_full_iteration(), {}, ""}};
  const TrainingConfig moe = legal_moe(CudaGraphImpl::local);
  for (const ModuleName& module : module_names) {
    CudaGraphScope both{CudaGraphModule::full_iteration};
    both.insert(module.module);
    cases.push_back({fmt::format("full_iteration with {}", module.name),
                     with_scope(moe, both),
                     {},
                     "full-iter-no-modules"});
    cases.push_back({fmt::format("{} alone", module.name),
                     with_scope(moe, CudaGraphScope{module.module}),
                     {},
                     ""});
  }
  return judge_cases(cases, context);
}

/// CON-02
CheckResult judge_moe_with_router(ScenarioContext& context) {
  constexpr CudaGraphScope both{CudaGraphModule::moe, CudaGraphModule::moe_router};
  std::vector<ConstraintCase> cases;
  for (const auto& [impl, name] :
       {std::pair{CudaGraphImpl::local, "local"},
        std::pair{CudaGraphImpl::transformer_engine, "transformer_engine"}}) {
    const TrainingConfig moe = legal_moe(impl);
    cases.push_back({fmt::format("{} with moe and moe_router", name),
                     with_scope(moe, both),
                     {},
                     "moe-xor-router"});
    cases.push_back({fmt::format("{} with moe", name),
                     with_scope(moe, CudaGraphScope{CudaGraphModule::moe}),
                     {},
                     ""});
    cases.push_back({fmt::format("{} with moe_router", name),
                     with_scope(moe, CudaGraphScope{CudaGraphModule::moe_router}),
                     {},
                     ""});
  }
  return judge_cases(cases, context);
}

TrainingConfig with_full_recompute(TrainingConfig config, RecomputeMethod method) {
  config.recompute_granularity = RecomputeGranularity::full;
  config.recompute_method = method;
  config.recompute_num_layers = 1;
  return config;
}

/// CON-08
CheckResult judge_full_recompute(ScenarioContext& context) {
  constexpr std::string_view rule = "recompute-full-needs-full-iteration";
  TrainingConfig eager = legal_local();
  eager.cuda_graph_impl = CudaGraphImpl::none;
  TrainingConfig callables = legal_local();
  callables.cuda_graph_impl = CudaGraphImpl::transformer_engine;
  struct Capture {
    std::string_view name;
    TrainingConfig config;
    std::string_view rule;
  };
  const std::array captures{
      Capture{"none", eager, ""},
      Capture{"whole layers of local", legal_local(), rule},
      Capture{"attn of local", with_scope(legal_local(), {CudaGraphModule::attn}), rule},
      Capture{"transformer_engine", callables, rule},
      Capture{"full_iteration", legal_full_iteration(), ""},
  };
  std::vector<ConstraintCase> cases;
  for (const auto& [method, name] : {std::pair{RecomputeMethod::uniform, "uniform"},
                                     std::pair{RecomputeMethod::block, "block"}}) {
    for (const Capture& capture : captures) {
      cases.push_back({fmt::format("full {} recompute with {}", name, capture.name),
                       with_full_recompute(capture.config, method),
                       {},
                       capture.rule});
    }
  }
  cases.push_back({"local without recompute", legal_local(), {}, ""});
  return judge_cases(cases, context);
}

TrainingConfig with_nan_checks(TrainingConfig config) {
  config.check_for_nan_in_loss = true;
  config.check_for_nan_in_grad = true;
  config.check_for_nan_in_loss_and_grad = true;
  return config;
}

/// CON-14
CheckResult judge_nan_checks(ScenarioContext& context) {
  const std::vector<ConstraintCase> cases{
      {"full_iteration with host NaN checks",
       with_nan_checks(legal_full_iteration()),
       {},
       "full-iter-nan-check"},
      {"full_iteration without", legal_full_iteration(), {}, ""},
      {"layers of local with host NaN checks", with_nan_checks(legal_local()), {}, ""},
  };
  return judge_cases(cases, context);
}

}  // namespace

std::span<const CheckDefinition> constraint_checks() {
  static constexpr auto row = [](std::string_view id, CheckResult (*scenario)(ScenarioContext&)) {
    return CheckDefinition{.id = id,
                           .subject = CheckSubject::run_scenario,
                           .failure = Verdict::fail_constraint_admitted,
                           .scenario = scenario};
  };
  static constexpr std::array table{
      row("CON-01", judge_full_iteration_alone),
      row("CON-02", judge_moe_with_router),
      row("CON-03", judge_preprocess_with_router),
      row("CON-04", judge_moe_scopes_need_experts),
      row("CON-05", judge_mlp_scope_needs_dense_layer),
      row("CON-06", judge_moe_scope_needs_padding),
      row("CON-07", judge_preprocess_stays_on_device),
      row("CON-08", judge_full_recompute),
      row("CON-09", judge_moe_recompute_with_router),
      row("CON-10", judge_attention_dropout_recomputed),
      row("CON-11", judge_hidden_dropout_recomputed),
      row("CON-12", judge_router_jitter_recomputed),
      row("CON-13", judge_expandable_segments),
      row("CON-14", judge_nan_checks),
      row("CON-15", judge_offloading),
      row("CON-16", judge_overlap_and_delayed_gradients),
      row("CON-18", judge_scopes_without_graphs),
      row("CON-19", judge_spellings),
      row("CON-20", judge_against_oracle),
      row("CON-21", judge_same_verdict_on_all_ranks),
      row("CON-22", judge_side_effects),
      row("CON-23", judge_all_rules_listed),
  };
  return table;
}

}  // namespace cgconform::suites::checks

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
using matrix::MoeTokenDispatcherType;
using matrix::TrainingConfig;

constexpr CudaGraphScope router{CudaGraphModule::moe_router};
constexpr CudaGraphScope preprocess{CudaGraphModule::moe_preprocess};
constexpr CudaGraphScope router_and_preprocess{CudaGraphModule::moe_router,
                                               CudaGraphModule::moe_preprocess};

CudaGraphScope normalised_scope(const TrainingConfig& config) {
  matrix::Evaluation evaluation;
  matrix::evaluate(matrix::Ruleset::cgconform, config, {}, evaluation);
  return evaluation.normalised.cuda_graph_scope;
}

}  // namespace

CheckResult judge_preprocess_with_router(ScenarioContext& context) {
  const TrainingConfig callables = legal_moe(CudaGraphImpl::transformer_engine);
  const TrainingConfig local = legal_moe(CudaGraphImpl::local);
  CheckResult result = judge_cases(
      {
          {"transformer_engine with moe_preprocess alone",
           with_scope(callables, preprocess),
           {},
           "preprocess-needs-router"},
          {"transformer_engine with both", with_scope(callables, router_and_preprocess), {}, ""},
          {"transformer_engine with moe_router alone", with_scope(callables, router), {}, ""},
          {"local with moe_preprocess alone", with_scope(local, preprocess), {}, ""},
          {"local with moe_router alone", with_scope(local, router), {}, ""},
          {"local with both", with_scope(local, router_and_preprocess), {}, ""},
      },
      context);
  if (result.verdict != Verdict::pass) return result;
  for (const CudaGraphScope& written : {router, preprocess, router_and_preprocess}) {
    if (normalised_scope(with_scope(local, written)) != router_and_preprocess) {
      return {.verdict = Verdict::fail_constraint_admitted,
              .detail = "local does not set moe_router and moe_preprocess together"};
    }
  }
  if (normalised_scope(with_scope(callables, router)) != router) {
    return {.verdict = Verdict::fail_constraint_admitted,
            .detail = "transformer_engine adds to a scope of moe_router alone"};
  }
  return result;
}

CheckResult judge_moe_scopes_need_experts(ScenarioContext& context) {
  std::vector<ConstraintCase> cases;
  constexpr std::array scopes{std::pair{CudaGraphModule::moe, "moe"},
                              std::pair{CudaGraphModule::moe_router, "moe_router"}};
  for (const LayerImpl& impl : layer_impls) {
    for (const auto& [module, scope] : scopes) {
      for (const int experts : {0, 1, 2, 4}) {
        TrainingConfig config = with_scope(legal_moe(impl.impl), CudaGraphScope{module});
        config.num_moe_experts.reset();
        if (experts > 0) config.num_moe_experts = experts;
        cases.push_back({fmt::format("{} with {} and {} experts", impl.name, scope, experts),
                         config,
                         {},
                         experts > 1 ? "" : "moe-scope-needs-moe-model"});
      }
    }
  }
  return judge_cases(cases, context);
}

CheckResult judge_mlp_scope_needs_dense_layer(ScenarioContext& context) {
  struct Layers {
    std::string_view name;
    matrix::MoeLayerFreq frequency;
    bool has_dense;
  };
  constexpr std::array layers{
      Layers{"every layer", {.every = 1}, false},
      Layers{"every second layer", {.every = 2}, true},
      Layers{"a list of ones", {.every = 1, .pattern = 0b1111, .pattern_length = 4}, false},
      Layers{"a mixed list", {.every = 1, .pattern = 0b0111, .pattern_length = 4}, true},
  };
  std::vector<ConstraintCase> cases;
  for (const LayerImpl& impl : layer_impls) {
    for (const Layers& row : layers) {
      TrainingConfig config =
          with_scope(legal_moe(impl.impl), CudaGraphScope{CudaGraphModule::mlp});
      config.num_layers = 4;
      config.moe_layer_freq = row.frequency;
      cases.push_back({fmt::format("{} with mlp, experts in {}", impl.name, row.name),
                       config,
                       {},
                       row.has_dense ? "" : "mlp-scope-needs-dense-layer"});
    }
    TrainingConfig dense = with_scope(legal_local(), CudaGraphScope{CudaGraphModule::mlp});
    dense.cuda_graph_impl = impl.impl;
    cases.push_back({fmt::format("{} with mlp of a dense model", impl.name), dense, {}, ""});
  }
  return judge_cases(cases, context);
}

CheckResult judge_moe_scope_needs_padding(ScenarioContext& context) {
  std::vector<ConstraintCase> cases;
  for (const LayerImpl& impl : layer_impls) {
    for (const bool capacity : {false, true}) {
      for (const bool pads : {false, true}) {
        TrainingConfig config =
            with_scope(legal_moe(impl.impl), CudaGraphScope{CudaGraphModule::moe});
        config.moe_expert_capacity_factor.reset();
        if (capacity) config.moe_expert_capacity_factor = 1.0F;
        config.moe_pad_expert_input_to_capacity = pads;
        cases.push_back({fmt::format("{} with moe, {} capacity factor, {} padding", impl.name,
                                     capacity ? "a" : "no", pads ? "with" : "without"),
                         config,
                         {},
                         capacity && pads ? "" : "moe-scope-needs-drop-and-pad"});
      }
    }
  }
  return judge_cases(cases, context);
}

CheckResult judge_preprocess_stays_on_device(ScenarioContext& context) {
  constexpr std::array dispatchers{std::pair{MoeTokenDispatcherType::alltoall, "alltoall"},
                                   std::pair{MoeTokenDispatcherType::allgather, "allgather"},
                                   std::pair{MoeTokenDispatcherType::flex, "flex"}};
  struct Padding {
    std::string_view name;
    bool capacity;
    bool pads;
    bool for_fp8;
    bool counts_on_host;  ///< with alltoall
  };
  constexpr std::array paddings{
      Padding{"dropless", false, false, false, false},
      Padding{"dropless with padding for fp8", false, false, true, true},
      Padding{"capacity without padding", true, false, false, true},
      Padding{"capacity and padding", true, true, false, false},
  };
  std::vector<ConstraintCase> cases;
  for (const LayerImpl& impl : layer_impls) {
    for (const auto& [dispatcher, name] : dispatchers) {
      for (const Padding& row : paddings) {
        TrainingConfig config = with_scope(legal_moe(impl.impl), router_and_preprocess);
        config.moe_token_dispatcher_type = dispatcher;
        config.moe_expert_capacity_factor.reset();
        if (row.capacity) config.moe_expert_capacity_factor = 1.0F;
        config.moe_pad_expert_input_to_capacity = row.pads;
        config.moe_router_padding_for_fp8 = row.for_fp8;
        const bool refused = row.counts_on_host && dispatcher == MoeTokenDispatcherType::alltoall;
        cases.push_back({fmt::format("{} with {}, {}", impl.name, name, row.name),
                         config,
                         {},
                         refused ? "preprocess-no-dtoh" : ""});
      }
    }
  }
  return judge_cases(cases, context);
}

}  // namespace cgconform::suites::checks

#include <array>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "matrix/environment.hpp"
#include "suites/checks/constraint_cases.hpp"
#include "suites/checks/constraint_tables.hpp"

namespace cgconform::suites::checks {
namespace {

using matrix::CudaGraphImpl;
using matrix::CudaGraphModule;
using matrix::CudaGraphScope;
using matrix::OffloadModule;
using matrix::OffloadModules;
using matrix::PlatformSettings;
using matrix::Ruleset;
using matrix::TrainingConfig;

/// A value of the allocator's variables, and whether segments are expandable under it.
struct AllocatorText {
  std::string_view text;
  bool expandable;
};

constexpr std::array allocator_texts{
    AllocatorText{"expandable_segments:True", true},
    AllocatorText{"expandable_segments:true", true},
    AllocatorText{"expandable_segments:TRUE", true},
    AllocatorText{"expandable_segments: True", true},
    AllocatorText{" expandable_segments:True ", true},
    AllocatorText{"max_split_size_mb:128,expandable_segments:True", true},
    AllocatorText{"expandable_segments:True,max_split_size_mb:128", true},
    AllocatorText{"expandable_segments:False,expandable_segments:True", true},
    AllocatorText{"expandable_segments:True,expandable_segments:False", false},
    AllocatorText{"expandable_segments:False", false},
    AllocatorText{"expandable_segments:false", false},
    AllocatorText{"max_split_size_mb:128", false},
    AllocatorText{"", false},
};

struct RegistrationText {
  std::optional<std::string_view> text;
  bool registers = false;
};

constexpr std::array registration_texts{
    RegistrationText{std::nullopt, true},
    RegistrationText{"1", true},
    RegistrationText{"0", false},
    RegistrationText{"00", false},
};

/// A capture and the rule that guards it against registered segments; empty where none is needed.
struct GuardedCapture {
  std::string_view name;
  TrainingConfig config;
  std::int32_t compute_capability;
  std::string_view rule;
};

std::vector<GuardedCapture> guarded_captures() {
  TrainingConfig eager = legal_local();
  eager.cuda_graph_impl = CudaGraphImpl::none;
  TrainingConfig callables = legal_local();
  callables.cuda_graph_impl = CudaGraphImpl::transformer_engine;
  return {
      {"none", eager, 90, ""},
      {"local before sm_100", legal_local(), 90, "expandable-segments-local-pre-sm100"},
      {"local on sm_100", legal_local(), 100, ""},
      {"transformer_engine before sm_100", callables, 90, "expandable-segments-te"},
      {"transformer_engine on sm_100", callables, 100, "expandable-segments-te"},
      {"full_iteration", legal_full_iteration(), 90, "expandable-segments-full-iteration"},
  };
}

/// Variables in the order they are set, each absent where empty.
struct AllocatorVariables {
  std::string name;
  std::optional<std::string_view> older;  ///< PYTORCH_CUDA_ALLOC_CONF
  std::optional<std::string_view> newer;  ///< PYTORCH_ALLOC_CONF; PyTorch prefers it
  bool expandable;
};

std::vector<AllocatorVariables> allocator_variables() {
  std::vector<AllocatorVariables> rows{{"no variable", std::nullopt, std::nullopt, false}};
  for (const AllocatorText& text : allocator_texts) {
    rows.push_back({fmt::format("PYTORCH_CUDA_ALLOC_CONF='{}'", text.text), text.text, std::nullopt,
                    text.expandable});
    rows.push_back({fmt::format("PYTORCH_ALLOC_CONF='{}'", text.text), std::nullopt, text.text,
                    text.expandable});
  }
  rows.push_back({"the newer variable turns it off", "expandable_segments:True",
                  "expandable_segments:False", false});
  rows.push_back({"the newer variable turns it on", "expandable_segments:False",
                  "expandable_segments:True", true});
  return rows;
}

PlatformSettings platform_of(const AllocatorVariables& allocator,
                             const RegistrationText& registration, std::int32_t capability) {
  PlatformSettings base;
  base.compute_capability = capability;
  matrix::EnvironmentBuilder builder(base);
  if (allocator.older) builder.set_variable("PYTORCH_CUDA_ALLOC_CONF", *allocator.older);
  if (allocator.newer) builder.set_variable("PYTORCH_ALLOC_CONF", *allocator.newer);
  if (registration.text) builder.set_variable("NCCL_GRAPH_REGISTER", *registration.text);
  return builder.build();
}

/// A legal configuration of Megatron-Core that offloads activations of its experts.
TrainingConfig offloading_experts(CudaGraphImpl impl) {
  TrainingConfig config = legal_moe(impl);
  config.fine_grained_activation_offloading = true;
  config.offload_modules = OffloadModules{OffloadModule::moe_act};
  config.cuda_graph_scope = {CudaGraphModule::attn};
  config.cuda_graph_warmup_steps = 1;
  return config;
}

TrainingConfig offloading_iteration() {
  TrainingConfig config = offloading_experts(CudaGraphImpl::full_iteration);
  config.cuda_graph_scope = {};
  config.fine_grained_offloading_max_inflight_offloads = 0;
  return config;
}

void add_host_offloading(std::vector<ConstraintCase>& cases) {
  constexpr std::string_view rule = "cpu-offload-per-layer";
  struct Row {
    std::string_view name;
    CudaGraphImpl impl;
    CudaGraphScope scope;
    Ruleset ruleset;
    bool refused;
  };
  // The seed documents refuse it with any graphs; Megatron-Core admits the whole iteration.
  const std::array rows{
      Row{"none", CudaGraphImpl::none, {}, Ruleset::cgconform, false},
      Row{"local", CudaGraphImpl::local, {}, Ruleset::cgconform, true},
      Row{"transformer_engine", CudaGraphImpl::transformer_engine, {}, Ruleset::cgconform, true},
      Row{"full_iteration of local",
          CudaGraphImpl::local,
          {CudaGraphModule::full_iteration},
          Ruleset::cgconform,
          true},
      Row{"none of Megatron-Core", CudaGraphImpl::none, {}, Ruleset::mcore_0_20, false},
      Row{"local of Megatron-Core", CudaGraphImpl::local, {}, Ruleset::mcore_0_20, true},
      Row{"transformer_engine of Megatron-Core",
          CudaGraphImpl::transformer_engine,
          {},
          Ruleset::mcore_0_20,
          true},
      Row{"full_iteration of Megatron-Core",
          CudaGraphImpl::full_iteration,
          {},
          Ruleset::mcore_0_20,
          false},
  };
  for (const Row& row : rows) {
    TrainingConfig config = with_scope(legal_local(), row.scope);
    config.cuda_graph_impl = row.impl;
    cases.push_back({fmt::format("{} without offloading", row.name), config, {}, "", row.ruleset});
    config.cpu_offloading = true;
    cases.push_back({fmt::format("{} with offloading", row.name),
                     config,
                     {},
                     row.refused ? rule : std::string_view{},
                     row.ruleset});
  }
}

void add_fine_grained_offloading(std::vector<ConstraintCase>& cases) {
  const auto add = [&](std::string name, const TrainingConfig& config, std::string_view rule) {
    cases.push_back({std::move(name), config, {}, rule, Ruleset::mcore_0_20});
  };
  for (const LayerImpl& impl : layer_impls) {
    const bool local = impl.impl == CudaGraphImpl::local;
    const TrainingConfig experts = offloading_experts(impl.impl);
    add(fmt::format("{} offloads expert activations", impl.name), experts, "");
    TrainingConfig moe = with_scope(experts, {CudaGraphModule::moe});
    add(fmt::format("{} captures the experts it offloads", impl.name), moe, "fgao-no-moe-scope");
    TrainingConfig cold = experts;
    cold.cuda_graph_warmup_steps = 0;
    add(fmt::format("{} offloads without warm-up", impl.name), cold, "fgao-warmup-positive");
    TrainingConfig twice = experts;
    twice.cpu_offloading = true;
    add(fmt::format("{} offloads in both ways", impl.name), twice, "fgao-no-cpu-offload");
    TrainingConfig attention = experts;
    attention.offload_modules = OffloadModules{OffloadModule::core_attn};
    add(fmt::format("{} offloads attention", impl.name), attention,
        local ? "fgao-local-modules" : "");
    add(fmt::format("{} captures whole layers", impl.name), with_scope(experts, {}),
        local ? "fgao-local-not-whole-layer" : "");
  }
  add("the iteration offloads a bounded number", offloading_iteration(), "");
  TrainingConfig unbounded = offloading_iteration();
  unbounded.fine_grained_offloading_max_inflight_offloads.reset();
  add("the iteration offloads without a bound", unbounded, "fgao-full-iter-inflight");
}

/// Expert-parallel overlap as Megatron-Core admits it.
TrainingConfig overlapping(CudaGraphImpl impl, CudaGraphModule module) {
  TrainingConfig config = with_scope(legal_moe(impl), CudaGraphScope{module});
  config.overlap_moe_expert_parallel_comm = true;
  config.expert_model_parallel_size = 2;
  config.bf16 = true;
  return config;
}

void add_delayed_gradients(std::vector<ConstraintCase>& cases) {
  for (const auto& [module, scope] :
       {std::pair{CudaGraphModule::attn, "attn"}, std::pair{CudaGraphModule::mlp, "mlp"}}) {
    const bool in_graph = module == CudaGraphModule::attn;
    for (const bool delayed : {false, true}) {
      for (const bool fused : {false, true}) {
        for (const bool biased : {false, true}) {
          TrainingConfig config = with_scope(legal_local(), CudaGraphScope{module});
          config.cuda_graph_impl = CudaGraphImpl::transformer_engine;
          config.delay_wgrad_compute = delayed;
          config.overlap_moe_expert_parallel_comm = delayed;
          config.gradient_accumulation_fusion = fused;
          config.add_bias_linear = biased;
          config.add_qkv_bias = false;
          const std::string name = fmt::format("{}: gradients {}, fusion {}, bias {}", scope,
                                               delayed ? "delayed" : "at once",
                                               fused ? "on" : "off", biased ? "on" : "off");
          const bool guarded = delayed && in_graph;
          const bool lacks_fusion = guarded && !fused;
          const bool has_bias = guarded && biased;
          if (lacks_fusion) cases.push_back({name, config, {}, "delay-wgrad-graph-ga-fusion"});
          if (has_bias) cases.push_back({name, config, {}, "delay-wgrad-graph-no-attn-bias"});
          if (!lacks_fusion && !has_bias) cases.push_back({name, config, {}, ""});
        }
      }
    }
  }
}

}  // namespace

CheckResult judge_expandable_segments(ScenarioContext& context) {
  std::vector<ConstraintCase> cases;
  for (const GuardedCapture& capture : guarded_captures()) {
    for (const AllocatorVariables& allocator : allocator_variables()) {
      for (const RegistrationText& registration : registration_texts) {
        const bool refused = allocator.expandable && registration.registers;
        cases.push_back({fmt::format("{}, {}, NCCL_GRAPH_REGISTER {}", capture.name, allocator.name,
                                     registration.text.value_or("unset")),
                         capture.config,
                         platform_of(allocator, registration, capture.compute_capability),
                         refused ? capture.rule : std::string_view{}});
      }
    }
  }
  return judge_cases(cases, context);
}

CheckResult judge_offloading(ScenarioContext& context) {
  std::vector<ConstraintCase> cases;
  add_host_offloading(cases);
  add_fine_grained_offloading(cases);
  return judge_cases(cases, context);
}

CheckResult judge_overlap_and_delayed_gradients(ScenarioContext& context) {
  std::vector<ConstraintCase> cases;
  for (const auto& [module, name, refused] :
       {std::tuple{CudaGraphModule::attn, "attn", false},
        std::tuple{CudaGraphModule::moe_router, "moe_router", false},
        std::tuple{CudaGraphModule::mlp, "mlp", true},
        std::tuple{CudaGraphModule::moe, "moe", true}}) {
    TrainingConfig config = overlapping(CudaGraphImpl::transformer_engine, module);
    cases.push_back({fmt::format("overlap with {}", name),
                     config,
                     {},
                     refused ? "ep-overlap-te-scope" : "",
                     Ruleset::mcore_0_20});
    config.overlap_moe_expert_parallel_comm = false;
    cases.push_back({fmt::format("{} without overlap", name), config, {}, "", Ruleset::mcore_0_20});
  }
  add_delayed_gradients(cases);
  return judge_cases(cases, context);
}

}  // namespace cgconform::suites::checks

#pragma once

#include <cstdint>

#include "matrix/constraint_engine.hpp"
#include "matrix/platform_settings.hpp"
#include "matrix/training_config.hpp"

namespace cgconform::matrix {

/// Conditions that many rules share. A rule names those it needs, so that most rules are passed
/// over by one comparison.
enum class Gate : std::uint8_t {
  graphs,           ///< an implementation other than none
  local,            ///< impl local, per layer or with the scope full_iteration
  local_per_layer,  ///< impl local that captures layers
  te,
  per_layer,  ///< local_per_layer or te
  full_iteration,
  whole_layer,  ///< per_layer with an empty scope
  moe_model,
  selective,
  full_recompute,
  cpu_offloading,
  fgao,  ///< fine-grained activation offloading
  ep_overlap,
  delay_wgrad,
  low_precision,  ///< fp8 or fp4
  virtual_pipeline,
  packing,
  expandable_segments,  ///< in effect, or as the frameworks' test reads it
  performance_overrides,
};
using Gates = EnumSet<Gate>;

/// What the predicates of rules may ask about one configuration. A view: it holds references.
struct Facts {
  Ruleset ruleset;
  const TrainingConfig& written;  ///< as the user gave it
  const TrainingConfig& config;   ///< as normalised so far
  const PlatformSettings& platform;

  using Impl = CudaGraphImpl;
  using Module = CudaGraphModule;

  bool in_scope(Module module) const { return config.cuda_graph_scope.contains(module); }
  /// The scope under either of its names, before any normalisation.
  CudaGraphScope written_scope() const {
    return written.cuda_graph_scope | written.cuda_graph_modules.value_or(CudaGraphScope{});
  }
  bool is(Impl impl) const { return config.cuda_graph_impl == impl; }
  bool graphs() const { return !is(Impl::none); }
  bool te() const { return is(Impl::transformer_engine); }
  bool full_iteration() const {
    return is(Impl::full_iteration) || (is(Impl::local) && in_scope(Module::full_iteration));
  }
  bool per_layer() const { return graphs() && !full_iteration(); }
  bool local_per_layer() const { return is(Impl::local) && !in_scope(Module::full_iteration); }
  bool whole_layer() const { return per_layer() && config.cuda_graph_scope.empty(); }
  /// True where `module` runs inside a captured region: named, in a whole layer or an iteration.
  bool captured(Module module) const {
    return full_iteration() || whole_layer() || in_scope(module);
  }
  /// A scope that names modules beside full_iteration.
  bool mixed_full_iteration() const {
    return in_scope(Module::full_iteration) && config.cuda_graph_scope.size() > 1;
  }

  bool moe_model() const { return config.num_moe_experts.value_or(0) > 1; }
  bool drop_and_pad() const {
    return config.moe_expert_capacity_factor.has_value() && config.moe_pad_expert_input_to_capacity;
  }
  bool alltoall() const {
    return config.moe_token_dispatcher_type == MoeTokenDispatcherType::alltoall;
  }
  bool allgather() const {
    return config.moe_token_dispatcher_type == MoeTokenDispatcherType::allgather;
  }
  bool flex_backend(MoeFlexDispatcherBackend backend) const {
    return config.moe_token_dispatcher_type == MoeTokenDispatcherType::flex &&
           config.moe_flex_dispatcher_backend == backend;
  }
  bool router_padding() const {
    return config.moe_router_padding_for_fp8 || config.moe_router_padding_for_quantization;
  }
  bool separate_shared_experts() const {
    return config.moe_shared_expert_intermediate_size.has_value() &&
           !config.moe_shared_expert_overlap;
  }
  /// The number of tokens an expert gets is known without asking the device.
  bool static_dispatch() const {
    return drop_and_pad() ||
           (config.moe_paged_stash && (flex_backend(MoeFlexDispatcherBackend::hybridep) ||
                                       flex_backend(MoeFlexDispatcherBackend::ncclep)));
  }

  bool selective() const { return config.recompute_granularity == RecomputeGranularity::selective; }
  bool full_recompute() const { return config.recompute_granularity == RecomputeGranularity::full; }
  RecomputeModules recompute_modules() const {
    return config.recompute_modules.value_or(RecomputeModules{RecomputeModule::core_attn});
  }
  bool recomputes(RecomputeModule module) const { return recompute_modules().contains(module); }
  bool low_precision() const { return config.fp8 != Fp8Format::none || config.fp4; }

  int virtual_stages() const { return config.virtual_pipeline_model_parallel_size.value_or(1); }
  int microbatch_group() const {
    return config.microbatch_group_size_per_vp_stage.value_or(config.pipeline_model_parallel_size);
  }
  /// Collectives captured in a graph register its memory with NCCL unless it is told not to.
  bool nccl_registers_graph_memory() const { return platform.nccl_graph_register.value_or(true); }
  /// The frameworks' own test: NCCL_GRAPH_REGISTER is exactly `0`.
  bool nccl_register_off_as_tested() const {
    return platform.nccl_graph_register == false && !platform.nccl_graph_register_misspelt;
  }
  /// Weight gradients run inside a graph, as Megatron-LM and Bridge define it.
  bool wgrad_in_graph(CudaGraphScope scope) const {
    return scope.contains(Module::attn) ||
           (scope.contains(Module::moe_router) && separate_shared_experts());
  }
  /// Megatron-LM and Bridge look at the scope even where the implementation is none, before it is
  /// cleared.
  CudaGraphScope scope_or_written() const {
    return config.cuda_graph_scope.empty() ? written_scope() : config.cuda_graph_scope;
  }

  Gates gates() const;
};

}  // namespace cgconform::matrix

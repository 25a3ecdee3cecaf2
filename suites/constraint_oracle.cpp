#include "suites/constraint_oracle.hpp"

#include <algorithm>

namespace cgconform::suites {
namespace {

using matrix::CudaGraphImpl;
using matrix::CudaGraphModule;
using matrix::CudaGraphScope;
using matrix::MoeTokenDispatcherType;
using matrix::PlatformSettings;
using matrix::RecomputeGranularity;
using matrix::RecomputeMethod;
using matrix::RecomputeModule;
using matrix::RecomputeModules;
using matrix::TrainingConfig;

class Oracle {
 public:
  Oracle(const TrainingConfig& config, const PlatformSettings& platform)
      : config_(config), platform_(platform), impl_(config.cuda_graph_impl) {
    if (config.enable_cuda_graph) impl_ = CudaGraphImpl::local;
    if (impl_ == CudaGraphImpl::none) return;
    scope_ = config.cuda_graph_scope;
    names_iteration_ = has(CudaGraphModule::full_iteration);
    whole_iteration_ = names_iteration_ && impl_ == CudaGraphImpl::local;
    whole_layer_ = scope_.empty();
    const bool router_or_preprocess =
        has(CudaGraphModule::moe_router) || has(CudaGraphModule::moe_preprocess);
    if (impl_ == CudaGraphImpl::local && router_or_preprocess) {
      scope_.insert(CudaGraphModule::moe_router);
      scope_.insert(CudaGraphModule::moe_preprocess);
    }
  }

  std::vector<std::string_view> judge() {
    sizes();
    micro_batch_groups();
    recompute_by_itself();
    if (impl_ != CudaGraphImpl::none) {
      implementation_and_scope();
      random_numbers_and_nan();
      mixture_of_experts();
      recompute_in_graphs();
      allocator();
      delayed_weight_gradients();
      pipeline();
      if (config_.cpu_offloading) report("cpu-offload-per-layer");
    }
    std::sort(violations_.begin(), violations_.end());
    return std::move(violations_);
  }

 private:
  bool has(CudaGraphModule module) const { return scope_.contains(module); }
  bool is_te() const { return impl_ == CudaGraphImpl::transformer_engine; }
  void report(std::string_view rule) { violations_.push_back(rule); }

  bool is_moe() const { return config_.num_moe_experts.value_or(1) > 1; }
  bool drops_and_pads() const {
    return config_.moe_expert_capacity_factor.has_value() &&
           config_.moe_pad_expert_input_to_capacity;
  }

  void implementation_and_scope() {
    if (impl_ == CudaGraphImpl::full_iteration) report("impl-enum");
    if (names_iteration_ && is_te()) report("full-iter-scope-impl");
    if (!whole_iteration_) return;
    CudaGraphScope others = scope_;
    others.erase(CudaGraphModule::full_iteration);
    if (!others.empty()) report("full-iter-no-modules");
  }

  void random_numbers_and_nan() {
    if (!config_.use_te_rng_tracker) report("rng-te-tracker-required");
    // One switch, to be set in two places.
    if (config_.te_rng_tracker != config_.use_te_rng_tracker) report("rng-sync-bridge");
    // The frameworks spell one switch in two ways; either of them turns the check off.
    const bool checks = config_.check_for_nan_in_loss && config_.check_for_nan_in_loss_and_grad;
    if (whole_iteration_ && checks) report("full-iter-nan-check");
  }

  void mixture_of_experts() {
    const bool moe = has(CudaGraphModule::moe);
    const bool router = has(CudaGraphModule::moe_router);
    const bool preprocess = has(CudaGraphModule::moe_preprocess);
    if (moe && router) report("moe-xor-router");
    if (preprocess && !router) report("preprocess-needs-router");
    if (!is_moe()) {
      if (moe || router) report("moe-scope-needs-moe-model");
      return;
    }
    if (has(CudaGraphModule::mlp) && !config_.moe_layer_freq.has_dense_layer()) {
      report("mlp-scope-needs-dense-layer");
    }
    if (moe && !drops_and_pads()) report("moe-scope-needs-drop-and-pad");
    const bool counts_go_to_host =
        config_.moe_token_dispatcher_type == MoeTokenDispatcherType::alltoall &&
        (config_.moe_expert_capacity_factor.has_value() || config_.moe_router_padding_for_fp8);
    if (preprocess && !drops_and_pads() && counts_go_to_host) report("preprocess-no-dtoh");
    if (drops_and_pads()) return;
    // The host waits for token counts inside what would be captured.
    if (whole_layer_) report("hz-whole-layer-dropless-moe");
    if (whole_iteration_) report("hz-full-iter-dropless");
  }

  void sizes() {
    if (config_.hidden_size % config_.num_attention_heads != 0) report("heads-divide-hidden-size");
    if (config_.num_attention_heads % config_.tensor_model_parallel_size != 0) {
      report("tensor-parts-divide-heads");
    }
    if (config_.num_query_groups) {
      const std::int32_t groups = *config_.num_query_groups;
      if (groups < 1 || config_.num_attention_heads % groups != 0 ||
          groups % config_.tensor_model_parallel_size != 0) {
        report("query-groups-divide-heads");
      }
    }
    if (config_.sequence_parallel && config_.tensor_model_parallel_size == 1) {
      report("shared-rows-need-tensor-parts");
    }
    if (is_moe()) {
      const std::int32_t spread = config_.expert_model_parallel_size;
      if (config_.data_parallel_size % spread != 0) report("expert-ranks-divide-replicas");
      if (*config_.num_moe_experts % spread != 0) report("expert-ranks-divide-experts");
    }
    const std::int32_t stages = config_.pipeline_model_parallel_size;
    const std::int32_t chunks = config_.virtual_pipeline_model_parallel_size.value_or(1);
    const bool even = config_.num_layers % stages == 0 && config_.num_layers / stages % chunks == 0;
    if (!even) report("stages-divide-layers");
  }

  /// The schedule of interleaved chunks runs micro-batches in groups no shorter than the pipeline.
  void micro_batch_groups() {
    const std::int32_t stages = config_.pipeline_model_parallel_size;
    const std::int32_t microbatches = config_.num_microbatches;
    if (config_.virtual_pipeline_model_parallel_size.value_or(1) < 2 || stages < 2) return;
    const std::int32_t group = config_.microbatch_group_size_per_vp_stage.value_or(stages);
    if (group < stages || group > microbatches) report("vp-group-range");
    const std::int32_t left_over = microbatches % group;
    if (left_over > 0 && left_over < stages) report("vp-final-group");
  }

  void recompute_by_itself() {
    if (config_.recompute_granularity != RecomputeGranularity::full) return;
    if (config_.recompute_method == RecomputeMethod::none) report("recompute-full-needs-method");
    if (!config_.recompute_num_layers) report("recompute-full-needs-num-layers");
  }

  void recompute_in_graphs() {
    // The rule looks at the scope alone: it has to be full_iteration and nothing else.
    const bool only_iteration = scope_ == CudaGraphScope{CudaGraphModule::full_iteration};
    if (config_.recompute_granularity == RecomputeGranularity::full && !only_iteration) {
      report("recompute-full-needs-full-iteration");
    }
    if (config_.recompute_granularity != RecomputeGranularity::selective) return;
    const RecomputeModules modules =
        config_.recompute_modules.value_or(RecomputeModules{RecomputeModule::core_attn});
    const bool everything = whole_layer_ || whole_iteration_;
    const auto recomputed_in_graph = [&](RecomputeModule recomputed, CudaGraphModule captured) {
      return modules.contains(recomputed) && (everything || has(captured));
    };
    const bool attention = recomputed_in_graph(RecomputeModule::core_attn, CudaGraphModule::attn);
    const bool mlp = recomputed_in_graph(RecomputeModule::mlp, CudaGraphModule::mlp);
    const bool moe = recomputed_in_graph(RecomputeModule::moe, CudaGraphModule::moe);
    if (attention && config_.attention_dropout != 0.0F) {
      report("graphed-recompute-attn-dropout");
    }
    if ((mlp || moe) && config_.hidden_dropout != 0.0F) {
      report("graphed-recompute-hidden-dropout");
    }
    if (moe && config_.moe_input_jitter_eps) report("graphed-recompute-moe-jitter");
    if (is_te() && modules.contains(RecomputeModule::moe) && has(CudaGraphModule::moe_router)) {
      report("recompute-moe-vs-router-te");
    }
  }

  void pipeline() {
    const bool several_chunks = config_.virtual_pipeline_model_parallel_size.value_or(1) > 1;
    const bool one_stage = config_.pipeline_model_parallel_size == 1;
    if (is_te() && one_stage && several_chunks && !config_.overlap_moe_expert_parallel_comm) {
      report("te-pp1-single-chunk");
    }
  }

  void allocator() {
    const bool registers = platform_.nccl_graph_register.value_or(true);
    if (!platform_.expandable_segments || !registers) return;
    if (is_te()) {
      report("expandable-segments-te");
    } else if (whole_iteration_) {
      report("expandable-segments-full-iteration");
    } else if (impl_ == CudaGraphImpl::local && platform_.compute_capability < 100) {
      report("expandable-segments-local-pre-sm100");
    }
  }

  void delayed_weight_gradients() {
    const bool in_graph = has(CudaGraphModule::attn) || has(CudaGraphModule::moe_router);
    if (!config_.delay_wgrad_compute || !in_graph) return;
    const auto& version = platform_.transformer_engine;
    if (version && *version < matrix::Version{2, 12, 0}) report("delay-wgrad-graph-te-2.12");
    if (!config_.gradient_accumulation_fusion) report("delay-wgrad-graph-ga-fusion");
    if (config_.add_bias_linear || config_.add_qkv_bias) report("delay-wgrad-graph-no-attn-bias");
  }

  const TrainingConfig& config_;
  const PlatformSettings& platform_;
  CudaGraphImpl impl_;
  CudaGraphScope scope_;
  bool names_iteration_ = false;  ///< the scope says so, whatever the implementation
  bool whole_iteration_ = false;  ///< and the implementation captures it
  bool whole_layer_ = false;
  std::vector<std::string_view> violations_;
};

}  // namespace

std::vector<std::string_view> oracle_violations(const TrainingConfig& config,
                                                const PlatformSettings& platform) {
  return Oracle(config, platform).judge();
}

}  // namespace cgconform::suites

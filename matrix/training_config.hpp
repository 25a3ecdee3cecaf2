#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "matrix/enum_set.hpp"
#include "matrix/hybrid_pattern.hpp"

namespace cgconform::matrix {

/// `cuda_graph_impl`. `full_iteration` is an implementation of its own since Megatron-Core 0.18;
/// before, and in the seed documents, it is a scope of `local`.
enum class CudaGraphImpl : std::uint8_t { none, local, transformer_engine, full_iteration };

/// Items of `cuda_graph_scope` (`cuda_graph_modules`). The first six are modules of a layer; the
/// last three are legacy values that normalisation removes.
enum class CudaGraphModule : std::uint8_t {
  attn,
  mlp,
  moe,
  moe_router,
  moe_preprocess,
  mamba,
  full,
  full_iteration,
  full_iteration_inference,
};
using CudaGraphScope = EnumSet<CudaGraphModule>;

enum class InferenceCudaGraphScope : std::uint8_t { none, layer, block };
enum class RecomputeGranularity : std::uint8_t { none, full, selective };
enum class RecomputeMethod : std::uint8_t { none, uniform, block };
enum class RecomputeModule : std::uint8_t {
  core_attn,
  moe_act,
  layernorm,
  mla_up_proj,
  mlp,
  moe,
  shared_experts,
  gdn_norm_out,
  gdp_in_proj,
  gdp_qkv,
  mhc,
};
using RecomputeModules = EnumSet<RecomputeModule>;

enum class MoeTokenDispatcherType : std::uint8_t { allgather, alltoall, flex };
enum class MoeFlexDispatcherBackend : std::uint8_t { none, deepep, hybridep, ncclep };
enum class TransformerImpl : std::uint8_t { local, transformer_engine, inference_optimized };
enum class Fp8Format : std::uint8_t { none, e4m3, hybrid };
enum class Fp8Recipe : std::uint8_t { delayed, tensorwise, mxfp8, blockwise, custom };
enum class Fp8AmaxComputeAlgo : std::uint8_t { most_recent, max };
enum class CrossEntropyFusionImpl : std::uint8_t { native, te };
enum class ParamsDtype : std::uint8_t { fp32, fp64, bf16, fp16 };
enum class OptimizerName : std::uint8_t { adam, sgd, muon };
enum class ExperimentalAttentionVariant : std::uint8_t { none, gdn, gdn2, dsa };

/// Items of `offload_modules` (fine-grained activation offloading).
enum class OffloadModule : std::uint8_t {
  attn_norm,
  qkv_linear,
  core_attn,
  attn_proj,
  mlp_norm,
  expert_fc1,
  moe_act,
  fused_group_mlp,
};
using OffloadModules = EnumSet<OffloadModule>;

/// Where sequences are packed: nowhere, by an offline-packed data set, while a batch is made, or
/// by the energon loader.
enum class SequencePacking : std::uint8_t { none, offline, in_batch, energon };

/// What a configuration was written as. Some rules only hold for one form; see input.hpp.
enum class ConfigOrigin : std::uint8_t {
  fields,                 ///< flat, in Megatron's field names
  container,              ///< a Megatron-Bridge configuration container
  arguments,              ///< a Megatron-LM argument list
  performance_overrides,  ///< arguments of Bridge's performance scripts
};

/// How `moe_layer_freq` lays MoE layers out: every n-th layer, or a list of 0 and 1 a layer.
/// `pattern` holds layers 0 to 63 of the list, bit i for layer i, `pattern_rest` those after, and
/// `pattern_length` its length; a length of 0 means the integer form `every`.
struct MoeLayerFreq {
  static constexpr std::int32_t max_pattern_length = 256;

  std::int32_t every = 1;
  std::uint64_t pattern = 0;
  std::int32_t pattern_length = 0;
  std::array<std::uint64_t, 3> pattern_rest{};

  /// True where layer `layer` of the list is a MoE layer; needs `layer < pattern_length`.
  constexpr bool pattern_at(std::int32_t layer) const {
    const auto word = static_cast<std::size_t>(layer / 64);
    const std::uint64_t bits = word == 0 ? pattern : pattern_rest[word - 1];
    return ((bits >> static_cast<unsigned>(layer % 64)) & 1U) != 0;
  }
  constexpr void set_pattern_at(std::int32_t layer) {
    const auto word = static_cast<std::size_t>(layer / 64);
    std::uint64_t& bits = word == 0 ? pattern : pattern_rest[word - 1];
    bits |= std::uint64_t{1} << static_cast<unsigned>(layer % 64);
  }
  /// True where at least one layer is dense (the predicate of `mlp-scope-needs-dense-layer`).
  constexpr bool has_dense_layer() const {
    if (pattern_length == 0) return every != 1;
    for (std::int32_t layer = 0; layer < pattern_length; ++layer) {
      if (!pattern_at(layer)) return true;
    }
    return false;
  }
  friend constexpr bool operator==(const MoeLayerFreq&, const MoeLayerFreq&) = default;
};

/// The training settings under test, under Megatron's own field names. Plain data without
/// allocations, so that millions can be made and judged a second. Field defaults are those of the
/// frameworks (dropouts are 0.1), not those of the built-in matrices.
struct TrainingConfig {
  // CUDA graphs
  CudaGraphImpl cuda_graph_impl = CudaGraphImpl::none;
  CudaGraphScope cuda_graph_scope;
  std::optional<CudaGraphScope> cuda_graph_modules;  ///< the later name of `cuda_graph_scope`
  bool enable_cuda_graph = false;                    ///< deprecated spelling of impl `local`
  bool external_cuda_graph = false;  ///< deprecated spelling of impl `transformer_engine`
  std::int32_t cuda_graph_warmup_steps = 3;
  bool cuda_graph_use_single_mempool = true;
  std::optional<InferenceCudaGraphScope> inference_cuda_graph_scope;
  bool optimizer_cuda_graph = false;
  bool cuda_graph_share_io_buffers = false;  ///< removed from Megatron; accepted and reported
  CudaGraphImpl vision_cuda_graph_impl = CudaGraphImpl::none;
  std::optional<std::int32_t> cuda_graph_max_tokens;
  ConfigOrigin origin = ConfigOrigin::fields;
  bool cuda_graph_impl_given = true;  ///< false where an input left `cuda_graph_impl` out

  // Random numbers and numerical checks
  bool use_te_rng_tracker = false;             ///< Bridge `model.use_te_rng_tracker`
  bool te_rng_tracker = false;                 ///< Megatron-LM and Bridge `rng.te_rng_tracker`
  bool check_for_nan_in_loss = true;           ///< Bridge `rerun_state_machine`
  bool check_for_nan_in_grad = true;           ///< `ddp`
  bool check_for_nan_in_loss_and_grad = true;  ///< Megatron-LM
  bool check_for_large_grads = false;          ///< `ddp`
  bool check_for_spiky_loss = false;           ///< Bridge `rerun_state_machine`
  std::optional<float> loss_scale;             ///< absent with `fp16` means dynamic scaling

  // Recompute
  RecomputeGranularity recompute_granularity = RecomputeGranularity::none;
  RecomputeMethod recompute_method = RecomputeMethod::none;
  std::optional<std::int32_t> recompute_num_layers;
  std::optional<RecomputeModules> recompute_modules;  ///< absent means [core_attn]
  float attention_dropout = 0.1F;
  float hidden_dropout = 0.1F;

  // Model
  std::int32_t num_layers = 4;
  std::int32_t hidden_size = 64;
  std::int32_t num_attention_heads = 4;
  std::optional<std::int32_t> num_query_groups;  ///< absent: every head has its own key and value
  std::int32_t seq_length = 64;
  bool add_bias_linear = true;
  bool add_qkv_bias = false;
  bool is_hybrid_model = false;  ///< has Mamba layers
  HybridPattern hybrid_layer_pattern;
  bool multi_latent_attention = false;
  bool enable_mhc_connections = false;
  ExperimentalAttentionVariant experimental_attention_variant = ExperimentalAttentionVariant::none;
  std::optional<std::int32_t> mtp_num_layers;
  bool use_transformer_engine_full_layer_spec = false;
  TransformerImpl transformer_impl = TransformerImpl::transformer_engine;
  ParamsDtype params_dtype = ParamsDtype::fp32;
  bool bf16 = false;
  bool fp16 = false;

  // Mixture of experts
  std::optional<std::int32_t> num_moe_experts;
  MoeLayerFreq moe_layer_freq;
  std::int32_t moe_router_topk = 2;
  float moe_aux_loss_coeff = 0.0F;
  bool moe_router_enable_expert_bias = false;
  std::optional<std::int32_t> moe_ffn_hidden_size;
  std::optional<float> moe_expert_capacity_factor;
  bool moe_pad_expert_input_to_capacity = false;
  MoeTokenDispatcherType moe_token_dispatcher_type = MoeTokenDispatcherType::allgather;
  MoeFlexDispatcherBackend moe_flex_dispatcher_backend = MoeFlexDispatcherBackend::deepep;
  bool moe_router_padding_for_fp8 = false;
  bool moe_router_padding_for_quantization = false;
  std::optional<float> moe_input_jitter_eps;
  std::optional<std::int32_t> moe_shared_expert_intermediate_size;
  bool moe_shared_expert_overlap = false;
  bool moe_grouped_gemm = false;
  std::optional<std::int32_t> moe_latent_size;
  bool moe_paged_stash = false;
  std::optional<float> moe_expert_rank_capacity_factor;
  bool use_transformer_engine_op_fuser = false;

  // Parallel layout and schedule
  std::int32_t tensor_model_parallel_size = 1;
  std::int32_t pipeline_model_parallel_size = 1;
  std::optional<std::int32_t> virtual_pipeline_model_parallel_size;
  std::int32_t expert_model_parallel_size = 1;
  std::int32_t data_parallel_size = 1;
  std::optional<std::int32_t> microbatch_group_size_per_vp_stage;
  std::int32_t num_microbatches = 1;  ///< 0 where an input does not tell it
  std::int32_t micro_batch_size = 1;
  std::optional<std::int32_t> global_batch_size;
  std::optional<std::int32_t> train_iters;
  bool rampup_batch_size = false;  ///< a ramp is set; its numbers do not matter here
  bool sequence_parallel = false;
  bool variable_seq_lengths = false;
  SequencePacking sequence_packing = SequencePacking::none;
  bool pad_to_max_length = false;
  bool pad_cu_seqlens = false;
  bool hybrid_context_parallel = false;
  std::int32_t gtp_weight_remat_size = 1;

  // Overlap and delayed weight gradients
  bool overlap_moe_expert_parallel_comm = false;
  bool delay_wgrad_compute = false;
  bool gradient_accumulation_fusion = true;
  bool overlap_grad_reduce = true;
  bool overlap_param_gather = false;
  bool use_distributed_optimizer = false;
  bool overlap_p2p_comm = true;
  bool use_megatron_fsdp = false;
  bool use_megatron_fsdp_v2 = false;
  bool fsdp_double_buffer = false;
  bool megatron_fsdp_cuda_graph_mode = false;
  bool nccl_ub = false;
  OptimizerName optimizer = OptimizerName::adam;

  // Offload
  bool cpu_offloading = false;
  std::int32_t cpu_offloading_num_layers = 0;
  bool fine_grained_activation_offloading = false;
  OffloadModules offload_modules;
  std::optional<std::int32_t> fine_grained_offloading_max_inflight_offloads;

  // Precision
  Fp8Format fp8 = Fp8Format::none;
  Fp8Recipe fp8_recipe = Fp8Recipe::delayed;
  std::int32_t fp8_margin = 0;  ///< scales are smaller by this power of two
  std::int32_t fp8_amax_history_len = 1;
  Fp8AmaxComputeAlgo fp8_amax_compute_algo = Fp8AmaxComputeAlgo::most_recent;
  bool tp_only_amax_red = false;
  bool fp4 = false;
  CrossEntropyFusionImpl cross_entropy_fusion_impl = CrossEntropyFusionImpl::native;

  // Inference and reinforcement learning
  std::int32_t inference_batch_times_seqlen_threshold = -1;
  std::int32_t inference_dynamic_batching_num_cuda_graphs = 16;
  std::int32_t inference_dynamic_batching_unified_memory_level = 0;
  std::optional<std::int32_t> inference_max_requests;
  std::int32_t num_speculative_tokens = 0;
  bool rl_persist_cuda_graphs = false;
  bool rl_training_cuda_graphs = false;
  bool rl_offload_kv_cache_during_training = false;

  friend bool operator==(const TrainingConfig&, const TrainingConfig&) = default;
};

}  // namespace cgconform::matrix

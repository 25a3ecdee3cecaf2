#include "suites/random_config.hpp"

#include <array>

namespace cgconform::suites {
namespace {

using matrix::CudaGraphImpl;
using matrix::CudaGraphModule;
using matrix::MoeTokenDispatcherType;
using matrix::RecomputeGranularity;
using matrix::RecomputeMethod;
using matrix::RecomputeModule;
using matrix::RecomputeModules;
using matrix::Version;

/// SplitMix64: a few lines, and the same numbers everywhere.
class Draws {
 public:
  explicit Draws(std::uint64_t seed) : state_(seed) {}

  std::uint64_t below(std::uint64_t bound) { return next() % bound; }
  bool one_in(std::uint64_t bound) { return below(bound) == 0; }
  template <typename T, std::size_t N>
  T among(const std::array<T, N>& values) {
    return values.at(below(N));
  }

 private:
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9E3779B97F4A7C15ULL);
    z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27U)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31U);
  }
  std::uint64_t state_;
};

constexpr std::array captured_modules{
    CudaGraphModule::attn,       CudaGraphModule::mlp,   CudaGraphModule::moe,
    CudaGraphModule::moe_router, CudaGraphModule::mamba, CudaGraphModule::moe_preprocess,
};

constexpr std::array recomputed_modules{
    RecomputeModule::core_attn,
    RecomputeModule::mlp,
    RecomputeModule::moe,
    RecomputeModule::layernorm,
    RecomputeModule::shared_experts,
};

void draw_graphs(Draws& draws, matrix::TrainingConfig& config) {
  config.cuda_graph_impl = draws.among(
      std::array{CudaGraphImpl::none, CudaGraphImpl::local, CudaGraphImpl::transformer_engine});
  if (!draws.one_in(4)) {
    const std::uint64_t rarity = 2 + draws.below(4);
    for (const CudaGraphModule module : captured_modules) {
      if (draws.one_in(rarity)) config.cuda_graph_scope.insert(module);
    }
  }
  if (draws.one_in(4)) config.cuda_graph_scope.insert(CudaGraphModule::full_iteration);
  config.use_te_rng_tracker = !draws.one_in(8);
  config.te_rng_tracker = !draws.one_in(8);
  config.check_for_nan_in_loss = draws.one_in(4);
  config.check_for_nan_in_grad = draws.one_in(4);
  config.check_for_nan_in_loss_and_grad = draws.one_in(4);
  config.cpu_offloading = draws.one_in(10);
}

void draw_recompute(Draws& draws, matrix::TrainingConfig& config) {
  config.recompute_granularity = draws.among(std::array{
      RecomputeGranularity::none, RecomputeGranularity::selective, RecomputeGranularity::full});
  if (config.recompute_granularity == RecomputeGranularity::full) {
    config.recompute_method = draws.among(
        std::array{RecomputeMethod::none, RecomputeMethod::uniform, RecomputeMethod::block});
    if (!draws.one_in(4)) config.recompute_num_layers = 1;
  }
  if (config.recompute_granularity == RecomputeGranularity::selective && !draws.one_in(4)) {
    RecomputeModules modules;
    for (const RecomputeModule module : recomputed_modules) {
      if (draws.one_in(3)) modules.insert(module);
    }
    config.recompute_modules = modules;
  }
  config.attention_dropout = draws.one_in(2) ? 0.0F : 0.1F;
  config.hidden_dropout = draws.one_in(2) ? 0.0F : 0.1F;
}

void draw_sizes(Draws& draws, matrix::TrainingConfig& config) {
  config.num_layers = draws.among(std::array{8, 8, 8, 4, 6});
  config.num_attention_heads = draws.one_in(16) ? 3 : 4;
  config.tensor_model_parallel_size = draws.one_in(4) ? 2 : 1;
  config.sequence_parallel = draws.one_in(8);
  config.data_parallel_size = draws.one_in(4) ? 6 : 4;
  if (draws.one_in(4)) {
    config.expert_model_parallel_size = draws.among(std::array{2, 3, 4, 6});
  }
  if (draws.one_in(8)) config.num_query_groups = draws.among(std::array{1, 2, 3});
}

void draw_model(Draws& draws, matrix::TrainingConfig& config) {
  config.add_bias_linear = draws.one_in(2);
  config.add_qkv_bias = draws.one_in(4);
  config.is_hybrid_model = draws.one_in(6);
  if (!draws.one_in(3)) {
    config.num_moe_experts = draws.one_in(8) ? 1 : 4;
    config.moe_layer_freq.every = draws.one_in(2) ? 1 : 2;
    if (draws.one_in(4)) {
      config.moe_layer_freq.pattern_length = 4;
      config.moe_layer_freq.pattern = draws.among(std::array<std::uint64_t, 3>{0xF, 0x5, 0x0});
    }
    config.moe_pad_expert_input_to_capacity = draws.one_in(2);
    if (config.moe_pad_expert_input_to_capacity || draws.one_in(3)) {
      config.moe_expert_capacity_factor = 1.0F;
    }
    config.moe_router_padding_for_fp8 = draws.one_in(6);
    if (draws.one_in(4)) config.moe_input_jitter_eps = 0.01F;
  }
  config.moe_token_dispatcher_type =
      draws.among(std::array{MoeTokenDispatcherType::allgather, MoeTokenDispatcherType::alltoall,
                             MoeTokenDispatcherType::flex});
  if (draws.one_in(5)) {
    config.delay_wgrad_compute = true;
    config.overlap_moe_expert_parallel_comm = true;
    config.gradient_accumulation_fusion = !draws.one_in(3);
  }
}

void draw_pipeline(Draws& draws, matrix::TrainingConfig& config) {
  config.pipeline_model_parallel_size = draws.among(std::array{1, 2, 4});
  if (draws.one_in(2)) {
    config.virtual_pipeline_model_parallel_size = draws.among(std::array{1, 2});
  }
  config.num_microbatches = draws.among(std::array{1, 4, 6});
}

void draw_platform(Draws& draws, matrix::PlatformSettings& platform) {
  platform.expandable_segments = draws.one_in(3);
  platform.expandable_segments_as_tested =
      draws.one_in(6) ? draws.one_in(2) : platform.expandable_segments;
  if (!draws.one_in(3)) platform.nccl_graph_register = draws.one_in(2);
  platform.nccl_graph_register_misspelt = draws.one_in(8);
  platform.compute_capability = draws.one_in(3) ? 100 : 90;
  if (!draws.one_in(3)) {
    platform.transformer_engine = draws.one_in(2) ? Version{2, 11, 0} : Version{2, 12, 0};
  }
}

}  // namespace

RandomConfig random_config(std::uint64_t number) {
  Draws draws(number);
  RandomConfig drawn;
  draw_graphs(draws, drawn.config);
  draw_recompute(draws, drawn.config);
  draw_model(draws, drawn.config);
  draw_pipeline(draws, drawn.config);
  draw_sizes(draws, drawn.config);
  draw_platform(draws, drawn.platform);
  return drawn;
}

}  // namespace cgconform::suites

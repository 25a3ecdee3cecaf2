#include "matrix/built_features.hpp"

#include <array>

namespace cgconform::matrix {
namespace {

constexpr bool built = true;
constexpr bool missing = false;

constexpr std::array feature_rows{
    Feature{"Transformer Engine callables", built, built,
            [](const Cell& cell) {
              return cell.config.cuda_graph_impl == CudaGraphImpl::transformer_engine;
            }},
    Feature{"mixture of experts", missing, missing,
            [](const Cell& cell) { return cell.config.num_moe_experts.has_value(); }},
    Feature{"Mamba layers", missing, missing,
            [](const Cell& cell) { return cell.config.is_hybrid_model; }},
    Feature{"recompute", missing, missing,
            [](const Cell& cell) {
              return cell.config.recompute_granularity != RecomputeGranularity::none;
            }},
    Feature{"more than two pipeline stages", built, built,
            [](const Cell& cell) { return cell.config.pipeline_model_parallel_size > 2; }},
    Feature{"several model chunks a stage", missing, missing,
            [](const Cell& cell) {
              return cell.config.virtual_pipeline_model_parallel_size.value_or(1) > 1;
            }},
    Feature{"tensor parallelism", missing, missing,
            [](const Cell& cell) {
              return cell.config.tensor_model_parallel_size > 1 || cell.config.sequence_parallel;
            }},
    Feature{"data parallelism", missing, missing,
            [](const Cell& cell) { return cell.config.data_parallel_size > 1; }},
    Feature{"expert parallelism", missing, missing,
            [](const Cell& cell) { return cell.config.expert_model_parallel_size > 1; }},
    Feature{"expandable segments", missing, missing,
            [](const Cell& cell) { return cell.platform.expandable_segments; }},
    Feature{"16-bit parameters", missing, missing,
            [](const Cell& cell) {
              return cell.config.params_dtype == ParamsDtype::bf16 ||
                     cell.config.params_dtype == ParamsDtype::fp16;
            }},
    Feature{"fp8 and fp4", missing, missing,
            [](const Cell& cell) { return cell.config.fp8 != Fp8Format::none || cell.config.fp4; }},
    Feature{"optimizer graph", missing, missing,
            [](const Cell& cell) { return cell.config.optimizer_cuda_graph; }},
    Feature{"activation offloading", missing, missing,
            [](const Cell& cell) {
              return cell.config.cpu_offloading || cell.config.fine_grained_activation_offloading;
            }},
    Feature{"expert-parallel overlap and delayed weight gradients", missing, missing,
            [](const Cell& cell) {
              return cell.config.overlap_moe_expert_parallel_comm ||
                     cell.config.delay_wgrad_compute;
            }},
    Feature{"multi-latent attention", missing, missing,
            [](const Cell& cell) { return cell.config.multi_latent_attention; }},
    Feature{"variable sequence lengths", missing, missing,
            [](const Cell& cell) { return cell.config.variable_seq_lengths; }},
    Feature{"distributed optimizer", missing, missing,
            [](const Cell& cell) { return cell.config.use_distributed_optimizer; }},
    Feature{"training on device cuda", built, built, [](const Cell&) { return true; }},
};

}  // namespace

std::string_view device_name(TargetDevice device) {
  return device == TargetDevice::reference ? "reference" : "cuda";
}

std::span<const Feature> feature_table() {
  return feature_rows;
}

const Feature* missing_feature(const Cell& cell, TargetDevice device) {
  for (const Feature& feature : feature_rows) {
    const bool available =
        device == TargetDevice::reference ? feature.built_on_reference : feature.built_on_cuda;
    if (!available && feature.needed(cell)) return &feature;
  }
  return nullptr;
}

}  // namespace cgconform::matrix

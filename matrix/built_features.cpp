#include "matrix/built_features.hpp"

#include <array>

#include "matrix/layer_modules.hpp"
#include "matrix/moe_layers.hpp"
#include "matrix/virtual_stages.hpp"

namespace cgconform::matrix {
namespace {

constexpr bool built = true;
constexpr bool missing = false;

bool captures_iteration(const Cell& cell) {
  return cell.config.cuda_graph_impl == CudaGraphImpl::full_iteration ||
         (cell.config.cuda_graph_impl == CudaGraphImpl::local &&
          cell.config.cuda_graph_scope.contains(CudaGraphModule::full_iteration));
}

/// Layers are captured one by one.
bool captures_by_layer(const Cell& cell) {
  const CudaGraphImpl impl = cell.config.cuda_graph_impl;
  return impl == CudaGraphImpl::transformer_engine ||
         (impl == CudaGraphImpl::local &&
          !cell.config.cuda_graph_scope.contains(CudaGraphModule::full_iteration));
}

bool captures_on_stage(const Cell& cell, std::int32_t stage) {
  for (const VirtualStage& held : virtual_stages(cell, stage)) {
    for (std::int32_t layer = held.first_layer; layer < held.end_layer; ++layer) {
      if (is_graphed(cell, layer) && scope_selects(cell, layer)) return true;
    }
  }
  return false;
}

/// Stages that capture layers one by one and have some that are captured.
std::int32_t capturing_stages(const Cell& cell) {
  std::int32_t capturing = 0;
  for (std::int32_t stage = 0; stage < cell.config.pipeline_model_parallel_size; ++stage) {
    if (captures_on_stage(cell, stage)) ++capturing;
  }
  return capturing;
}

bool has_stage_without_graphs(const Cell& cell) {
  if (!captures_by_layer(cell)) return false;
  const std::int32_t capturing = capturing_stages(cell);
  return capturing > 0 && capturing < cell.config.pipeline_model_parallel_size;
}

/// The scope names none of the kinds of layers that a model with experts has.
bool takes_no_layer_beside_experts(const Cell& cell) {
  return captures_by_layer(cell) && has_experts(cell) && capturing_stages(cell) == 0;
}

/// Transformer Engine's checkpoint, which is not left out in 8 bits, does not take the backward
/// that warms local graphs up.
bool recomputes_fp8_in_local_graphs(const Cell& cell) {
  const TrainingConfig& config = cell.config;
  if (config.fp8 == Fp8Format::none || !captures_by_layer(cell) ||
      config.cuda_graph_impl != CudaGraphImpl::local ||
      config.recompute_granularity != RecomputeGranularity::selective) {
    return false;
  }
  const RecomputeModules modules = config.recompute_modules.value_or(RecomputeModules{});
  return modules.contains(RecomputeModule::mlp) || modules.contains(RecomputeModule::moe) ||
         modules.contains(RecomputeModule::shared_experts);
}

constexpr std::array feature_rows{
    Feature{"Transformer Engine callables", built, built,
            [](const Cell& cell) {
              return cell.config.cuda_graph_impl == CudaGraphImpl::transformer_engine;
            }},
    Feature{"mixture of experts", built, built,
            [](const Cell& cell) { return cell.config.num_moe_experts.has_value(); }},
    Feature{"experts without a fixed number of rows that drop tokens", missing, missing,
            [](const Cell& cell) {
              return has_experts(cell) && cell.config.moe_expert_capacity_factor.has_value() &&
                     !cell.config.moe_pad_expert_input_to_capacity;
            }},
    Feature{"latent experts, paged stash and padded routing", missing, missing,
            [](const Cell& cell) {
              const TrainingConfig& config = cell.config;
              return config.moe_latent_size.has_value() || config.moe_paged_stash ||
                     config.moe_expert_rank_capacity_factor.has_value() ||
                     config.moe_router_padding_for_fp8 ||
                     config.moe_router_padding_for_quantization || config.moe_shared_expert_overlap;
            }},
    Feature{"Mamba layers", built, built,
            [](const Cell& cell) { return cell.config.is_hybrid_model; }},
    Feature{"hybrid models with experts", built, built,
            [](const Cell& cell) { return cell.config.is_hybrid_model && has_experts(cell); }},
    Feature{"layers of experts in a hybrid model without num_moe_experts", missing, missing,
            [](const Cell& cell) {
              return cell.config.is_hybrid_model && !has_experts(cell) &&
                     modules_of_model(cell.config).contains(CudaGraphModule::moe);
            }},
    Feature{"grouped-query attention", built, built,
            [](const Cell& cell) { return cell.config.num_query_groups.has_value(); }},
    Feature{"packed sequences", built, built,
            [](const Cell& cell) { return cell.config.sequence_packing != SequencePacking::none; }},
    Feature{"packed sequences without padding to a fixed width, or packed while a batch is made",
            missing, missing,
            [](const Cell& cell) {
              const TrainingConfig& config = cell.config;
              return config.sequence_packing != SequencePacking::none &&
                     (config.sequence_packing != SequencePacking::offline ||
                      !config.pad_to_max_length || !config.pad_cu_seqlens);
            }},
    Feature{"Mamba layers over several tensor-parallel ranks", built, built,
            [](const Cell& cell) {
              return cell.config.tensor_model_parallel_size > 1 && cell.config.is_hybrid_model;
            }},
    Feature{"packed sequences in Mamba layers", built, built,
            [](const Cell& cell) {
              return cell.config.sequence_packing != SequencePacking::none &&
                     cell.config.is_hybrid_model;
            }},
    Feature{"images before the text", built, built,
            [](const Cell& cell) { return cell.shape.image_tokens > 0; }},
    Feature{"images longer than half of the sequence", missing, missing,
            [](const Cell& cell) { return 2 * cell.shape.image_tokens > cell.config.seq_length; }},
    Feature{"images before packed text", missing, missing,
            [](const Cell& cell) {
              return cell.shape.image_tokens > 0 &&
                     cell.config.sequence_packing != SequencePacking::none;
            }},
    Feature{"a graph of the vision model", missing, missing,
            [](const Cell& cell) {
              return cell.shape.image_tokens > 0 &&
                     cell.config.vision_cuda_graph_impl != CudaGraphImpl::none;
            }},
    Feature{"recompute", built, built,
            [](const Cell& cell) {
              return cell.config.recompute_granularity != RecomputeGranularity::none;
            }},
    Feature{"more than two pipeline stages", built, built,
            [](const Cell& cell) { return cell.config.pipeline_model_parallel_size > 2; }},
    Feature{"forms of capture for anything but the whole iteration", missing, missing,
            [](const Cell& cell) {
              return cell.shape.capture_form != CaptureForm::configured &&
                     cell.config.cuda_graph_impl != CudaGraphImpl::none &&
                     !captures_iteration(cell);
            }},
    Feature{"capture in parts of pipeline stages", missing, missing,
            [](const Cell& cell) {
              return cell.config.pipeline_model_parallel_size > 1 &&
                     cell.shape.capture_form == CaptureForm::partitioned;
            }},
    Feature{"capture of callables", built, built,
            [](const Cell& cell) { return cell.shape.capture_form == CaptureForm::callables; }},
    Feature{
        "callables of a pipeline stage, of layers recomputed whole, or that wait for parameters",
        missing, missing,
        [](const Cell& cell) {
          return cell.shape.capture_form == CaptureForm::callables &&
                 (cell.config.pipeline_model_parallel_size > 1 ||
                  cell.config.recompute_granularity == RecomputeGranularity::full ||
                  cell.config.overlap_param_gather);
        }},
    Feature{"capture in parts", built, built,
            [](const Cell& cell) { return cell.shape.capture_form == CaptureForm::partitioned; }},
    Feature{"forward, backward and optimizer in one graph", built, built,
            [](const Cell& cell) { return cell.shape.capture_form == CaptureForm::whole_step; }},
    Feature{"clipping of gradients", built, built,
            [](const Cell& cell) { return cell.shape.clip_grad > 0.0F; }},
    Feature{"partial micro-batches", built, built,
            [](const Cell& cell) { return cell.shape.last_batch != LastBatch::full; }},
    Feature{"partial micro-batches of one sequence", missing, missing,
            [](const Cell& cell) {
              return cell.shape.last_batch != LastBatch::full && cell.config.micro_batch_size < 2;
            }},
    Feature{"partial micro-batches of Mamba layers", built, built,
            [](const Cell& cell) {
              return cell.shape.last_batch != LastBatch::full && cell.config.is_hybrid_model;
            }},
    Feature{"partial micro-batches of packed sequences or images", built, built,
            [](const Cell& cell) {
              return cell.shape.last_batch != LastBatch::full &&
                     (cell.config.sequence_packing != SequencePacking::none ||
                      cell.shape.image_tokens > 0);
            }},
    Feature{"partial micro-batches of experts", missing, missing,
            [](const Cell& cell) {
              return cell.shape.last_batch != LastBatch::full &&
                     cell.config.num_moe_experts.has_value();
            }},
    Feature{"several model chunks a stage", built, built,
            [](const Cell& cell) { return chunks_a_stage(cell) > 1; }},
    Feature{"pipeline stages that capture no layer", built, built, has_stage_without_graphs},
    Feature{"graphs of layers that the model has not", missing, missing,
            takes_no_layer_beside_experts},
    Feature{"tensor parallelism", built, built,
            [](const Cell& cell) { return cell.config.tensor_model_parallel_size > 1; }},
    Feature{"sequence parallelism", built, built,
            [](const Cell& cell) { return cell.config.sequence_parallel; }},
    Feature{"sequence parallelism beside experts", built, built,
            [](const Cell& cell) { return cell.config.sequence_parallel && has_experts(cell); }},
    Feature{"sequence parallelism beside latent attention", built, built,
            [](const Cell& cell) {
              return cell.config.sequence_parallel && cell.config.multi_latent_attention;
            }},
    Feature{"sequence parallelism beside partial micro-batches", built, built,
            [](const Cell& cell) {
              return cell.config.sequence_parallel && cell.shape.last_batch != LastBatch::full;
            }},
    Feature{"data parallelism", built, built,
            [](const Cell& cell) { return cell.config.data_parallel_size > 1; }},
    Feature{"expert parallelism", built, built,
            [](const Cell& cell) { return cell.config.expert_model_parallel_size > 1; }},
    Feature{"expandable segments", built, built,
            [](const Cell& cell) { return cell.platform.expandable_segments; }},
    Feature{"16-bit parameters", built, built,
            [](const Cell& cell) {
              return cell.config.params_dtype == ParamsDtype::bf16 ||
                     cell.config.params_dtype == ParamsDtype::fp16;
            }},
    Feature{"fp8", built, built,
            [](const Cell& cell) { return cell.config.fp8 != Fp8Format::none; }},
    Feature{"fp8 recipes other than delayed and tensorwise", missing, missing,
            [](const Cell& cell) {
              return cell.config.fp8 != Fp8Format::none &&
                     cell.config.fp8_recipe != Fp8Recipe::delayed &&
                     cell.config.fp8_recipe != Fp8Recipe::tensorwise;
            }},
    Feature{
        "fp8 beside experts", built, built,
        [](const Cell& cell) { return cell.config.fp8 != Fp8Format::none && has_experts(cell); }},
    Feature{"fp8 with mlp, moe or shared_experts recomputed in local graphs of layers", missing,
            missing, recomputes_fp8_in_local_graphs},
    Feature{"fp4", missing, missing, [](const Cell& cell) { return cell.config.fp4; }},
    Feature{"optimizer graph", built, built,
            [](const Cell& cell) { return cell.config.optimizer_cuda_graph; }},
    Feature{"optimizer graph without other graphs", missing, missing,
            [](const Cell& cell) {
              return cell.config.optimizer_cuda_graph &&
                     cell.config.cuda_graph_impl == CudaGraphImpl::none;
            }},
    Feature{"activation offloading", missing, missing,
            [](const Cell& cell) {
              return cell.config.cpu_offloading || cell.config.fine_grained_activation_offloading;
            }},
    Feature{"expert-parallel overlap", missing, missing,
            [](const Cell& cell) { return cell.config.overlap_moe_expert_parallel_comm; }},
    Feature{"delayed weight gradients", built, built,
            [](const Cell& cell) { return cell.config.delay_wgrad_compute; }},
    Feature{"delayed weight gradients beside graphs of layers by impl local", missing, missing,
            [](const Cell& cell) {
              return cell.config.delay_wgrad_compute && captures_by_layer(cell) &&
                     cell.config.cuda_graph_impl == CudaGraphImpl::local;
            }},
    Feature{"delayed weight gradients of Mamba layers", built, built,
            [](const Cell& cell) {
              return cell.config.delay_wgrad_compute && cell.config.is_hybrid_model;
            }},
    Feature{"multi-latent attention", built, built,
            [](const Cell& cell) { return cell.config.multi_latent_attention; }},
    Feature{"multi-latent attention over several tensor-parallel ranks", built, built,
            [](const Cell& cell) {
              return cell.config.tensor_model_parallel_size > 1 &&
                     cell.config.multi_latent_attention;
            }},
    Feature{"variable sequence lengths", missing, missing,
            [](const Cell& cell) { return cell.config.variable_seq_lengths; }},
    Feature{"distributed optimizer", built, built,
            [](const Cell& cell) { return cell.config.use_distributed_optimizer; }},
    Feature{"distributed optimizer beside experts", built, built,
            [](const Cell& cell) {
              return cell.config.use_distributed_optimizer && has_experts(cell);
            }},
    Feature{"gather of parameters beside the forward without a distributed optimizer", missing,
            missing,
            [](const Cell& cell) {
              return cell.config.overlap_param_gather && !cell.config.use_distributed_optimizer;
            }},
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

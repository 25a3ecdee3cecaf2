#pragma once

#include <cstdint>

#include "matrix/training_config.hpp"
#include "workloads/device/communicator.hpp"
#include "workloads/layers/bundle.hpp"
#include "workloads/layers/layer_shape.hpp"

namespace cgconform::workloads {

/// Sizes and rates of the experts of a layer, beside those of the layer.
struct MoeShape {
  std::int32_t experts = 1;
  std::int32_t top_k = 1;
  std::int32_t ffn_hidden = 1;
  std::int32_t shared_hidden = 0;  ///< of the expert that sees all tokens; 0 where there is none
  /// Rows an expert has for the tokens of one rank; 0 where it has as many as tokens come.
  std::int32_t capacity = 0;
  float jitter = 0.0F;  ///< range of the noise on the router's input
  float balance_coefficient = 0.0F;
  bool expert_bias = false;
  float grad_scale = 1.0F;  ///< of losses a layer adds: 1 / micro-batches of a step
  /// The ranks that the experts are spread over, each with as many; null for one.
  Communicator* group = nullptr;
  matrix::MoeTokenDispatcherType dispatcher = matrix::MoeTokenDispatcherType::alltoall;

  std::int32_t group_size() const { return group == nullptr ? 1 : group->size(); }
  std::int32_t group_rank() const { return group == nullptr ? 0 : group->rank(); }
  std::int32_t own_experts() const { return experts / group_size(); }
};

/// How the modules of a MoE layer hand tensors on. Gradients are bundles of the same names.
struct MoeLayouts {
  BundleLayout common;  ///< what all begin with: `residual`, `shared` if any, `probabilities`
  BundleLayout routed;  ///< by the router: and `experts`, `load`, `normed`
  BundleLayout placed;  ///< by the preprocess: and `slots`, `sources`, `load`, `rows`
  BundleLayout worked;  ///< by the experts: and `slots`, `sources`, `rows`
  BundleLayout routed_grad;
  BundleLayout placed_grad;  ///< also that of `worked`
};

/// Rows that the tokens of one rank are given: all places, or the capacity of each expert.
std::int64_t expert_rows(const TransformerShape& shape, const MoeShape& moe);

MoeLayouts moe_layouts(const TransformerShape& shape, const MoeShape& moe, DType dtype);

}  // namespace cgconform::workloads

#pragma once

#include <string>

#include "matrix/cell.hpp"
#include "workloads/layers/moe_shape.hpp"
#include "workloads/layers/transformer_layer.hpp"

namespace cgconform::workloads {

/// A pre-norm transformer layer with experts in the place of the MLP: modules `attn`, `moe_router`,
/// `moe_preprocess`, `moe_experts` and `moe_postprocess`. In a hybrid model, whose layers have no
/// `attention` beside their experts, the last four.
class MoeTransformerLayer final : public ModularLayer {
 public:
  MoeTransformerLayer(const std::string& name, const TransformerShape& shape, const MoeShape& moe,
                      const ModuleParameters& made_in, bool attention = true);
};

/// The experts that a cell's MoE layers have. `group` joins the ranks they are spread over; null
/// for one. Throws Error where the sizes make no layer.
MoeShape moe_shape(const matrix::Cell& cell, Communicator* group);

}  // namespace cgconform::workloads

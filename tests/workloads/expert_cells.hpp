#pragma once

#include <optional>

#include "tests/workloads/sharded_results.hpp"

namespace cgconform::workloads::testing {

/// A dense layer and one with experts, a stage, over the ranks of a layout; each expert has a fixed
/// number of rows where a capacity is given.
inline matrix::Cell expert_cell(const Layout& layout, matrix::CudaGraphImpl impl,
                                matrix::CudaGraphScope scope, std::optional<float> capacity) {
  matrix::Cell cell = spread_cell(layout, impl);
  cell.config.cuda_graph_scope = scope;
  cell.config.seq_length = 4;
  cell.config.num_microbatches = 2;
  cell.config.num_moe_experts = 4;
  cell.config.moe_layer_freq.every = 2;
  cell.config.moe_token_dispatcher_type = matrix::MoeTokenDispatcherType::alltoall;
  cell.config.moe_aux_loss_coeff = 0.01F;
  cell.config.moe_shared_expert_intermediate_size = 8;
  cell.config.moe_ffn_hidden_size = 8;
  cell.shape.steps = 3;
  cell.config.moe_expert_capacity_factor = capacity;
  cell.config.moe_pad_expert_input_to_capacity = capacity.has_value();
  return cell;
}

}  // namespace cgconform::workloads::testing

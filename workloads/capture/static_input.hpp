#pragma once

#include <cstdint>
#include <string_view>

#include "workloads/capture/layer_body.hpp"
#include "workloads/training/leg_context.hpp"

namespace cgconform::workloads {

/// Memory that a layer's graph reads at every replay.
struct StaticInput {
  std::string_view tensor;  ///< "input", "grad_output" or "cu_seqlens"
  TensorView slot;
  std::uint64_t replays = 0;  ///< of the graph so far
};

/// Brings what a call is given into the slot: copies it unless it lies there already. Throws Error
/// where its shape or type is not the captured one.
void refresh_static_input(LegContext& context, const LayerCall& call, const StaticInput& input,
                          const TensorView& given);

}  // namespace cgconform::workloads

#pragma once

#include <cstdint>
#include <string>

#include "workloads/device/stream.hpp"

namespace cgconform::workloads {

/// By-value scalars of the softmax over packed sequences.
struct PackedSoftmaxParams {
  float scale = 1.0F;
  std::int32_t heads = 1;    ///< of each row of the batch
  std::int32_t borders = 1;  ///< entries of each row of cu_seqlens
};

extern const OpDeclaration packed_softmax_forward_op;

/// Row softmax of scale * scores, [sequences * heads, length, length], over the keys of the query's
/// own packed sequence at or before the query; 0 elsewhere. `cu_seqlens`, int32 [sequences,
/// borders], holds for each row of the batch where its packed sequences begin, rising, the first at
/// 0; entries of `length` and beyond stand for nothing. It is read when the op runs, so that a
/// graph follows it. The gradient is that of the causal softmax.
void packed_softmax_forward(Stream& stream, const TensorView& probabilities,
                            const TensorView& scores, const TensorView& cu_seqlens, float scale,
                            std::string label);

}  // namespace cgconform::workloads

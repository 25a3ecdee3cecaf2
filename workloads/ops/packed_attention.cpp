#include "workloads/ops/packed_attention.hpp"

#include <array>
#include <utility>

#include "matrix/error.hpp"
#include "workloads/ops/cuda/kernels.hpp"
#include "workloads/ops/reference/kernels.hpp"

namespace cgconform::workloads {

namespace {

constexpr std::array packed_softmax_operands{OperandDeclaration{"probabilities", Access::write},
                                             OperandDeclaration{"scores", Access::read},
                                             OperandDeclaration{"cu_seqlens", Access::read}};

}  // namespace

const OpDeclaration packed_softmax_forward_op{"packed_softmax_forward", packed_softmax_operands,
                                              reference::packed_softmax_forward,
                                              cuda::packed_softmax_forward};

void packed_softmax_forward(Stream& stream, const TensorView& probabilities,
                            const TensorView& scores, const TensorView& cu_seqlens, float scale,
                            std::string label) {
  const std::int64_t sequences = cu_seqlens.shape[0];
  if (sequences == 0 || scores.shape[0] % sequences != 0) {
    throw InternalError("packed_softmax: the heads do not divide over the rows of the batch");
  }
  PackedSoftmaxParams params;
  params.scale = scale;
  params.heads = static_cast<std::int32_t>(scores.shape[0] / sequences);
  params.borders = static_cast<std::int32_t>(cu_seqlens.shape[1]);
  stream.launch(make_call(packed_softmax_forward_op, std::array{probabilities, scores, cu_seqlens},
                          OpParams::of(params), std::move(label)));
}

}  // namespace cgconform::workloads

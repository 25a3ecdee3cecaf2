#include "workloads/ops/gradient_norm.hpp"

#include <array>
#include <utility>

#include "matrix/error.hpp"
#include "workloads/ops/cuda/kernels.hpp"
#include "workloads/ops/reference/kernels.hpp"

namespace cgconform::workloads {

namespace {

constexpr std::array sums_operands{OperandDeclaration{"sums", Access::write},
                                   OperandDeclaration{"grads", Access::read},
                                   OperandDeclaration{"parts", Access::read}};
constexpr std::array factor_operands{OperandDeclaration{"factor", Access::write},
                                     OperandDeclaration{"norm", Access::write},
                                     OperandDeclaration{"squares", Access::read},
                                     OperandDeclaration{"overflowed", Access::read, true}};
constexpr std::array scale_operands{OperandDeclaration{"tensor", Access::accumulate},
                                    OperandDeclaration{"factor", Access::read}};

}  // namespace

const OpDeclaration square_sums_op{"square_sums", sums_operands, reference::square_sums,
                                   cuda::square_sums};
const OpDeclaration clip_factor_op{"clip_factor", factor_operands, reference::clip_factor,
                                   cuda::clip_factor};
const OpDeclaration scale_by_op{"scale_by", scale_operands, reference::scale_by, cuda::scale_by};

void square_sums(Stream& stream, const TensorView& sums, const TensorView& grads,
                 const TensorView& parts, std::string label) {
  const auto bytes = sums.elements() * static_cast<std::int64_t>(sizeof(GradientPart));
  if (parts.bytes() != bytes) {
    throw InternalError("square_sums: the table of parts does not fit");
  }
  stream.launch(make_call(square_sums_op, std::array{sums, grads, parts}, {}, std::move(label)));
}

void clip_factor(Stream& stream, const TensorView& factor, const TensorView& norm,
                 const TensorView& squares, const TensorView& overflowed, const ClipParams& params,
                 std::string label) {
  stream.launch(make_call(clip_factor_op, std::array{factor, norm, squares, overflowed},
                          OpParams::of(params), std::move(label)));
}

void scale_by(Stream& stream, const TensorView& tensor, const TensorView& factor,
              std::string label) {
  stream.launch(make_call(scale_by_op, std::array{tensor, factor}, {}, std::move(label)));
}

}  // namespace cgconform::workloads

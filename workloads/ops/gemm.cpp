#include "workloads/ops/gemm.hpp"

#include <array>
#include <utility>

#include "matrix/error.hpp"
#include "workloads/ops/cuda/kernels.hpp"
#include "workloads/ops/reference/kernels.hpp"

namespace cgconform::workloads {

namespace {

constexpr std::array gemm_operands{OperandDeclaration{"c", Access::write},
                                   OperandDeclaration{"a", Access::read},
                                   OperandDeclaration{"b", Access::read}};
constexpr std::array gemm_accumulate_operands{OperandDeclaration{"c", Access::accumulate},
                                              OperandDeclaration{"a", Access::read},
                                              OperandDeclaration{"b", Access::read}};
constexpr std::array gemm_bias_operands{
    OperandDeclaration{"c", Access::write}, OperandDeclaration{"a", Access::read},
    OperandDeclaration{"b", Access::read}, OperandDeclaration{"bias", Access::read},
    OperandDeclaration{"residual", Access::read, true}};

std::int32_t extent(const TensorView& tensor, int axis_from_end) {
  return static_cast<std::int32_t>(tensor.shape[tensor.shape.rank() - axis_from_end]);
}

GemmParams gemm_params(const TensorView& c, const TensorView& a, bool transpose_a,
                       const TensorView& b, bool transpose_b, float alpha) {
  GemmParams params;
  params.batch = c.shape.rank() == 3 ? static_cast<std::int32_t>(c.shape[0]) : 1;
  params.m = extent(c, 2);
  params.n = extent(c, 1);
  params.k = extent(a, transpose_a ? 2 : 1);
  params.transpose_a = transpose_a;
  params.transpose_b = transpose_b;
  params.alpha = alpha;
  const bool fits = extent(a, transpose_a ? 1 : 2) == params.m &&
                    extent(b, transpose_b ? 2 : 1) == params.n &&
                    extent(b, transpose_b ? 1 : 2) == params.k &&
                    a.elements() == std::int64_t{params.batch} * params.m * params.k &&
                    b.elements() == std::int64_t{params.batch} * params.n * params.k;
  if (!fits) throw InternalError("gemm: the extents of a, b and c do not fit");
  const bool types_fit =
      a.dtype == b.dtype && (c.dtype == a.dtype || c.dtype == arithmetic_type(a.dtype));
  if (!types_fit) throw InternalError("gemm: the types of a, b and c do not fit");
  return params;
}

}  // namespace

const OpDeclaration gemm_op{"gemm", gemm_operands, reference::gemm, cuda::gemm};
const OpDeclaration gemm_accumulate_op{"gemm_accumulate", gemm_accumulate_operands,
                                       reference::gemm_accumulate, cuda::gemm_accumulate};
const OpDeclaration gemm_bias_op{"gemm_bias", gemm_bias_operands, reference::gemm_bias,
                                 cuda::gemm_bias};

void gemm(Stream& stream, const TensorView& c, const TensorView& a, bool transpose_a,
          const TensorView& b, bool transpose_b, std::string label, float alpha) {
  const GemmParams params = gemm_params(c, a, transpose_a, b, transpose_b, alpha);
  stream.launch(make_call(gemm_op, std::array{c, a, b}, OpParams::of(params), std::move(label)));
}

void gemm_bias(Stream& stream, const TensorView& c, const TensorView& a, bool transpose_a,
               const TensorView& b, bool transpose_b, const TensorView& bias, std::string label,
               const TensorView& residual) {
  const GemmParams params = gemm_params(c, a, transpose_a, b, transpose_b, 1.0F);
  if (bias.elements() != params.n || bias.dtype != c.dtype) {
    throw InternalError("gemm_bias: the bias does not fit c");
  }
  if (residual.valid() && (residual.elements() != c.elements() || residual.dtype != c.dtype)) {
    throw InternalError("gemm_bias: the residual does not fit c");
  }
  stream.launch(make_call(gemm_bias_op, std::array{c, a, b, bias, residual}, OpParams::of(params),
                          std::move(label)));
}

void gemm_accumulate(Stream& stream, const TensorView& c, const TensorView& a, bool transpose_a,
                     const TensorView& b, bool transpose_b, std::string label) {
  const GemmParams params = gemm_params(c, a, transpose_a, b, transpose_b, 1.0F);
  stream.launch(
      make_call(gemm_accumulate_op, std::array{c, a, b}, OpParams::of(params), std::move(label)));
}

}  // namespace cgconform::workloads

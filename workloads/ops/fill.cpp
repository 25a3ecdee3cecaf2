#include "workloads/ops/fill.hpp"

#include <array>
#include <utility>

#include "matrix/error.hpp"
#include "workloads/ops/cuda/kernels.hpp"
#include "workloads/ops/reference/kernels.hpp"

namespace cgconform::workloads {

namespace {

constexpr std::array fill_operands{OperandDeclaration{"output", Access::write}};
constexpr std::array fill_parts_operands{OperandDeclaration{"output", Access::accumulate},
                                         OperandDeclaration{"parts", Access::read}};

}  // namespace

const OpDeclaration fill_normal_op{"fill_normal", fill_operands, reference::fill_normal,
                                   cuda::fill_normal};
const OpDeclaration fill_normal_parts_op{"fill_normal_parts", fill_parts_operands,
                                         reference::fill_normal_parts, cuda::fill_normal_parts};
const OpDeclaration fill_uniform_op{"fill_uniform", fill_operands, reference::fill_uniform,
                                    cuda::fill_uniform};
const OpDeclaration fill_tokens_op{"fill_tokens", fill_operands, reference::fill_tokens,
                                   cuda::fill_tokens};
const OpDeclaration poison_op{"poison", fill_operands, reference::poison, cuda::poison};

void fill_normal(Stream& stream, const TensorView& output, const FillNormalParams& params,
                 std::string label) {
  stream.launch(
      make_call(fill_normal_op, std::array{output}, OpParams::of(params), std::move(label)));
}

void fill_normal_parts(Stream& stream, const TensorView& output, const TensorView& parts,
                       std::string label) {
  if (parts.dtype != DType::uint8 ||
      parts.bytes() % static_cast<std::int64_t>(sizeof(NormalPart)) != 0) {
    throw InternalError("fill_normal_parts: the table of parts does not fit");
  }
  stream.launch(make_call(fill_normal_parts_op, std::array{output, parts}, {}, std::move(label)));
}

void fill_uniform(Stream& stream, const TensorView& output, const FillUniformParams& params,
                  std::string label) {
  stream.launch(
      make_call(fill_uniform_op, std::array{output}, OpParams::of(params), std::move(label)));
}

void fill_tokens(Stream& stream, const TensorView& output, const FillTokensParams& params,
                 std::string label) {
  if (output.dtype != DType::int32 || params.bound < 1) {
    throw InternalError("fill_tokens: needs an int32 tensor and a bound of at least 1");
  }
  stream.launch(
      make_call(fill_tokens_op, std::array{output}, OpParams::of(params), std::move(label)));
}

void poison(Stream& stream, const TensorView& output, std::string label) {
  stream.launch(make_call(poison_op, std::array{output}, {}, std::move(label)));
}

}  // namespace cgconform::workloads

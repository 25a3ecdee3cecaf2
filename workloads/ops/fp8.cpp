#include "workloads/ops/fp8.hpp"

#include <array>
#include <utility>

#include "matrix/error.hpp"
#include "workloads/ops/cuda/kernels.hpp"
#include "workloads/ops/reference/kernels.hpp"

namespace cgconform::workloads {

namespace {

constexpr std::array quantise_operands{
    OperandDeclaration{"quantised", Access::write}, OperandDeclaration{"transposed", Access::write},
    OperandDeclaration{"amax", Access::accumulate, true}, OperandDeclaration{"x", Access::read},
    OperandDeclaration{"scale", Access::read}};
constexpr std::array quantise_weight_operands{
    OperandDeclaration{"quantised", Access::accumulate},
    OperandDeclaration{"transposed", Access::accumulate},
    OperandDeclaration{"amax", Access::accumulate, true},
    OperandDeclaration{"x", Access::read},
    OperandDeclaration{"scale", Access::read},
    OperandDeclaration{"cached", Access::read},
    OperandDeclaration{"refreshes", Access::accumulate, true}};
constexpr std::array current_scale_operands{OperandDeclaration{"scale", Access::accumulate},
                                            OperandDeclaration{"descale", Access::accumulate},
                                            OperandDeclaration{"x", Access::read},
                                            OperandDeclaration{"cached", Access::read, true}};
constexpr std::array amax_operands{OperandDeclaration{"amax", Access::accumulate},
                                   OperandDeclaration{"x", Access::read}};
constexpr std::array scale_of_amax_operands{OperandDeclaration{"scale", Access::write},
                                            OperandDeclaration{"descale", Access::write},
                                            OperandDeclaration{"amax", Access::read}};
constexpr std::array update_operands{OperandDeclaration{"scale", Access::accumulate},
                                     OperandDeclaration{"descale", Access::accumulate},
                                     OperandDeclaration{"history", Access::accumulate},
                                     OperandDeclaration{"newest", Access::accumulate},
                                     OperandDeclaration{"updates", Access::accumulate},
                                     OperandDeclaration{"largest", Access::read}};
constexpr std::array gemm_operands{
    OperandDeclaration{"c", Access::write}, OperandDeclaration{"a", Access::read},
    OperandDeclaration{"b", Access::read}, OperandDeclaration{"descale_a", Access::read},
    OperandDeclaration{"descale_b", Access::read}};
constexpr std::array gemm_accumulate_operands{
    OperandDeclaration{"c", Access::accumulate}, OperandDeclaration{"a", Access::read},
    OperandDeclaration{"b", Access::read}, OperandDeclaration{"descale_a", Access::read},
    OperandDeclaration{"descale_b", Access::read}};

void require(bool fits, const char* op) {
  if (!fits) throw InternalError(std::string(op) + ": the extents of the operands do not fit");
}

OpParams gemm_params(const TensorView& c, const TensorView& a, const TensorView& b,
                     EightBitFormat format_a, EightBitFormat format_b) {
  const auto extent = [](const TensorView& tensor, int axis) {
    return static_cast<std::int32_t>(tensor.shape[axis]);
  };
  require(a.shape[1] == b.shape[1] && c.shape == Shape{a.shape[0], b.shape[0]}, "fp8_gemm");
  return OpParams::of(Fp8GemmParams{extent(a, 0), extent(b, 0), extent(a, 1), format_a, format_b});
}

}  // namespace

const OpDeclaration fp8_quantise_op{"fp8_quantise", quantise_operands, reference::fp8_quantise,
                                    cuda::fp8_quantise};
const OpDeclaration fp8_quantise_weight_op{"fp8_quantise_weight", quantise_weight_operands,
                                           reference::fp8_quantise_weight,
                                           cuda::fp8_quantise_weight};
const OpDeclaration fp8_current_scale_op{"fp8_current_scale", current_scale_operands,
                                         reference::fp8_current_scale, cuda::fp8_current_scale};
const OpDeclaration fp8_amax_op{"fp8_amax", amax_operands, reference::fp8_amax, cuda::fp8_amax};
const OpDeclaration fp8_scale_of_amax_op{"fp8_scale_of_amax", scale_of_amax_operands,
                                         reference::fp8_scale_of_amax, cuda::fp8_scale_of_amax};
const OpDeclaration fp8_update_scales_op{"fp8_update_scales", update_operands,
                                         reference::fp8_update_scales, cuda::fp8_update_scales};
const OpDeclaration fp8_gemm_op{"fp8_gemm", gemm_operands, reference::fp8_gemm, cuda::fp8_gemm};
const OpDeclaration fp8_gemm_accumulate_op{"fp8_gemm_accumulate", gemm_accumulate_operands,
                                           reference::fp8_gemm_accumulate,
                                           cuda::fp8_gemm_accumulate};

void fp8_quantise(Stream& stream, const QuantisedView& quantised, const TensorView& amax,
                  const TensorView& x, const TensorView& scale, EightBitFormat format,
                  std::string label) {
  require(quantised.columns.shape == Shape{x.shape[1], x.shape[0]}, "fp8_quantise");
  stream.launch(make_call(fp8_quantise_op,
                          std::array{quantised.rows, quantised.columns, amax, x, scale},
                          OpParams::of(QuantiseParams{format}), std::move(label)));
}

void fp8_quantise_weight(Stream& stream, const QuantisedView& quantised, const TensorView& amax,
                         const TensorView& x, const TensorView& scale, const TensorView& cached,
                         const TensorView& refreshes, EightBitFormat format, std::string label) {
  require(quantised.columns.shape == Shape{x.shape[1], x.shape[0]}, "fp8_quantise_weight");
  stream.launch(
      make_call(fp8_quantise_weight_op,
                std::array{quantised.rows, quantised.columns, amax, x, scale, cached, refreshes},
                OpParams::of(QuantiseParams{format}), std::move(label)));
}

void fp8_current_scale(Stream& stream, const TensorView& scale, const TensorView& descale,
                       const TensorView& x, const TensorView& cached, EightBitFormat format,
                       std::string label) {
  stream.launch(make_call(fp8_current_scale_op, std::array{scale, descale, x, cached},
                          OpParams::of(QuantiseParams{format}), std::move(label)));
}

void fp8_amax(Stream& stream, const TensorView& amax, const TensorView& x, std::string label) {
  stream.launch(make_call(fp8_amax_op, std::array{amax, x}, {}, std::move(label)));
}

void fp8_scale_of_amax(Stream& stream, const TensorView& scale, const TensorView& descale,
                       const TensorView& amax, EightBitFormat format, std::string label) {
  stream.launch(make_call(fp8_scale_of_amax_op, std::array{scale, descale, amax},
                          OpParams::of(QuantiseParams{format}), std::move(label)));
}

void fp8_update_scales(Stream& stream, const ScalingView& scaling, const UpdateScalesParams& params,
                       std::string label) {
  require(
      scaling.history.shape[1] == params.tensors && params.first + params.count <= params.tensors,
      "fp8_update_scales");
  stream.launch(make_call(fp8_update_scales_op,
                          std::array{scaling.scale, scaling.descale, scaling.history,
                                     scaling.newest, scaling.updates, scaling.largest},
                          OpParams::of(params), std::move(label)));
}

void fp8_gemm(Stream& stream, const TensorView& c, const TensorView& a, const TensorView& b,
              const TensorView& descale_a, const TensorView& descale_b, EightBitFormat format_a,
              EightBitFormat format_b, std::string label) {
  stream.launch(make_call(fp8_gemm_op, std::array{c, a, b, descale_a, descale_b},
                          gemm_params(c, a, b, format_a, format_b), std::move(label)));
}

void fp8_gemm_accumulate(Stream& stream, const TensorView& c, const TensorView& a,
                         const TensorView& b, const TensorView& descale_a,
                         const TensorView& descale_b, EightBitFormat format_a,
                         EightBitFormat format_b, std::string label) {
  stream.launch(make_call(fp8_gemm_accumulate_op, std::array{c, a, b, descale_a, descale_b},
                          gemm_params(c, a, b, format_a, format_b), std::move(label)));
}

}  // namespace cgconform::workloads

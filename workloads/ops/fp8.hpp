#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "workloads/device/eight_bit.hpp"
#include "workloads/device/stream.hpp"

namespace cgconform::workloads {

/// By-value scalars of the ops that quantise.
struct QuantiseParams {
  EightBitFormat format = EightBitFormat::e4m3;
};

/// By-value scalars of the products of 8-bit matrices: C [m, n] = A [m, k] B^T, B [n, k].
struct Fp8GemmParams {
  std::int32_t m = 0;
  std::int32_t n = 0;
  std::int32_t k = 0;
  EightBitFormat format_a = EightBitFormat::e4m3;
  EightBitFormat format_b = EightBitFormat::e4m3;
};

/// Tensors [first, first + count) of a history, which has `tensors` of them.
struct UpdateScalesParams {
  std::int32_t tensors = 0;
  std::int32_t first = 0;
  std::int32_t count = 0;
  float headroom = 1.0F;     ///< scales are smaller by it, so that numbers may grow in between
  bool most_recent = false;  ///< the step that ends decides alone, not the largest of the history
};

/// Floats from one reciprocal of a scale to the next: cuBLASLt takes the pointer to an operand's
/// scale with an alignment of 16 bytes alone.
inline constexpr std::int64_t descale_stride = 4;

/// Of a device's measurements: products in 8 bits that its own units have done. Missing where it
/// has no such units.
inline constexpr std::string_view fp8_products_figure = "fp8_products_of_units";

/// What delayed scaling keeps of a number of tensors, in device memory.
struct ScalingView {
  TensorView scale;    ///< [tensors]
  TensorView descale;  ///< [tensors, stride], reciprocals, each in the first place of its row
  TensorView history;  ///< [length, tensors]; the first row is the step's that runs
  TensorView newest;   ///< [tensors], the magnitudes of the step that ended last
  TensorView updates;  ///< a scalar
  TensorView largest;  ///< [tensors], the largest number of each one's format
};

extern const OpDeclaration fp8_quantise_op;
extern const OpDeclaration fp8_quantise_weight_op;
extern const OpDeclaration fp8_current_scale_op;
extern const OpDeclaration fp8_amax_op;
extern const OpDeclaration fp8_scale_of_amax_op;
extern const OpDeclaration fp8_update_scales_op;
extern const OpDeclaration fp8_gemm_op;
extern const OpDeclaration fp8_gemm_accumulate_op;

/// A matrix in 8 bits and its transpose.
struct QuantisedView {
  TensorView rows;     ///< uint8 [rows, columns]
  TensorView columns;  ///< uint8 [columns, rows]
};

/// quantised = x [rows, columns] * scale, rounded to nearest even and saturated; `amax`, a scalar,
/// becomes the larger of itself and the largest |x|, and may be invalid.
void fp8_quantise(Stream& stream, const QuantisedView& quantised, const TensorView& amax,
                  const TensorView& x, const TensorView& scale, EightBitFormat format,
                  std::string label);

/// As fp8_quantise, but does nothing where the scalar `cached` in device memory is not zero: what
/// was quantised before stays. Else adds 1 to `refreshes`, which may be invalid.
void fp8_quantise_weight(Stream& stream, const QuantisedView& quantised, const TensorView& amax,
                         const TensorView& x, const TensorView& scale, const TensorView& cached,
                         const TensorView& refreshes, EightBitFormat format, std::string label);

/// scale = largest number of the format / largest |x|, and its reciprocal; 1 where x is all zero or
/// not finite. Does nothing where `cached` is valid and not zero.
void fp8_current_scale(Stream& stream, const TensorView& scale, const TensorView& descale,
                       const TensorView& x, const TensorView& cached, EightBitFormat format,
                       std::string label);

/// amax, a scalar, becomes the larger of itself and the largest |x|.
void fp8_amax(Stream& stream, const TensorView& amax, const TensorView& x, std::string label);

/// As fp8_current_scale by a magnitude that is known: scale and its reciprocal by `amax`.
void fp8_scale_of_amax(Stream& stream, const TensorView& scale, const TensorView& descale,
                       const TensorView& amax, EightBitFormat format, std::string label);

/// The end of a step of delayed scaling, for a range of tensors. `newest` becomes the first row of
/// the history. Each tensor's scale becomes `largest` / (headroom * amax), amax the largest of the
/// history or the newest, but stays where that is zero or not finite; the history moves back by one
/// step and its first row starts from zero. Adds 1 to `updates`.
void fp8_update_scales(Stream& stream, const ScalingView& scaling, const UpdateScalesParams& params,
                       std::string label);

/// C [m, n] = A [m, k] B^T * descale_a * descale_b, B [n, k] in 8 bits each, summed up in fp32 in
/// ascending k and rounded once to C's type. Throws InternalError where extents do not fit.
void fp8_gemm(Stream& stream, const TensorView& c, const TensorView& a, const TensorView& b,
              const TensorView& descale_a, const TensorView& descale_b, EightBitFormat format_a,
              EightBitFormat format_b, std::string label);
/// C += the same.
void fp8_gemm_accumulate(Stream& stream, const TensorView& c, const TensorView& a,
                         const TensorView& b, const TensorView& descale_a,
                         const TensorView& descale_b, EightBitFormat format_a,
                         EightBitFormat format_b, std::string label);

}  // namespace cgconform::workloads

#pragma once

#include <cstdint>
#include <string>

#include "workloads/device/stream.hpp"
#include "workloads/rng/philox.hpp"

namespace cgconform::workloads {

/// By-value scalars of fill_normal. The output may be a part of a larger tensor: rows of
/// `row_length` elements that begin at `first` and stand `row_stride` apart in it. A length of 0
/// means one row.
struct FillNormalParams {
  std::uint64_t seed = 0;
  std::uint64_t offset = 0;
  float deviation = 1.0F;
  float mean = 0.0F;
  std::int64_t first = 0;
  std::int64_t row_length = 0;
  std::int64_t row_stride = 0;
};

/// Where element `i` of the output stands in the larger tensor.
CGCONFORM_HOST_DEVICE constexpr std::uint64_t place_of(const FillNormalParams& params,
                                                       std::int64_t i) {
  const std::int64_t place =
      params.row_length == 0 ? i
                             : i / params.row_length * params.row_stride + i % params.row_length;
  return static_cast<std::uint64_t>(params.first + place);
}

/// By-value scalars of fill_uniform.
struct FillUniformParams {
  std::uint64_t seed = 0;
  std::uint64_t offset = 0;
  float low = 0.0F;
  float high = 1.0F;
};

/// By-value scalars of fill_tokens.
struct FillTokensParams {
  std::uint64_t seed = 0;
  std::uint64_t offset = 0;
  std::int32_t bound = 1;
};

extern const OpDeclaration fill_normal_op;
extern const OpDeclaration fill_normal_parts_op;
extern const OpDeclaration fill_uniform_op;
extern const OpDeclaration fill_tokens_op;
extern const OpDeclaration poison_op;

/// Normally distributed numbers, a function of seed, offset and the element's place alone; fp64
/// gets the values of fp32, the 16-bit types those values rounded.
void fill_normal(Stream& stream, const TensorView& output, const FillNormalParams& params,
                 std::string label);

/// A part of a vector and what fill_normal_parts fills it with.
struct NormalPart {
  std::int64_t first = 0;  ///< element of the vector
  std::int64_t count = 0;
  FillNormalParams values;
};

/// fill_normal of many parts of a vector in one call; what lies between them stays as it is.
/// `parts` holds NormalPart values as bytes, in ascending order and without overlaps. A part that
/// does not lie in the vector is left out.
void fill_normal_parts(Stream& stream, const TensorView& output, const TensorView& parts,
                       std::string label);

/// Numbers in [low, high), a function of seed, offset and element alone; fp64 gets the values of
/// fp32, the 16-bit types those values rounded, which may reach `high`.
void fill_uniform(Stream& stream, const TensorView& output, const FillUniformParams& params,
                  std::string label);

/// Token ids in [0, bound), int32. Throws InternalError for another type or a bound below 1.
void fill_tokens(Stream& stream, const TensorView& output, const FillTokensParams& params,
                 std::string label);

/// Elements that cannot pass for a result: a quiet NaN with a payload of its own in floating types,
/// the smallest number in signed integers (no index), 0xA5 in every byte of unsigned ones.
void poison(Stream& stream, const TensorView& output, std::string label);

}  // namespace cgconform::workloads

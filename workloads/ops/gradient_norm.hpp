#pragma once

#include <cstdint>
#include <string>

#include "workloads/device/stream.hpp"
#include "workloads/rng/philox.hpp"

namespace cgconform::workloads {

/// A run of elements of a vector of gradients.
struct GradientPart {
  std::int64_t first = 0;
  std::int64_t count = 0;
};

/// True where the part lies in a vector of so many elements.
CGCONFORM_HOST_DEVICE constexpr bool lies_in(const GradientPart& part, std::int64_t elements) {
  return part.first >= 0 && part.count >= 0 && part.count <= elements &&
         part.first <= elements - part.count;
}

/// By-value scalars of clip_factor.
struct ClipParams {
  double largest_norm = 1.0;
  double epsilon = 1e-6;  ///< added to the norm that is divided by
};

extern const OpDeclaration square_sums_op;
extern const OpDeclaration clip_factor_op;
extern const OpDeclaration scale_by_op;

/// sums[i] = the sum of the squares of the elements of part i, summed up in fp64. `parts` holds
/// GradientPart values as bytes; the sum of one that does not lie in `grads` is 0. Throws
/// InternalError where there are not as many sums as parts.
void square_sums(Stream& stream, const TensorView& sums, const TensorView& grads,
                 const TensorView& parts, std::string label);

/// norm = sqrt(squares); factor = what gradients of that norm are multiplied by to be clipped, 1
/// where they are not. All fp64 scalars. Where `overflowed`, an fp32 flag, is valid and set, the
/// factor is 1: such a step is left out.
void clip_factor(Stream& stream, const TensorView& factor, const TensorView& norm,
                 const TensorView& squares, const TensorView& overflowed, const ClipParams& params,
                 std::string label);

/// tensor *= factor, an fp64 scalar in device memory.
void scale_by(Stream& stream, const TensorView& tensor, const TensorView& factor,
              std::string label);

}  // namespace cgconform::workloads

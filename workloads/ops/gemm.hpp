#pragma once

#include <cstdint>
#include <string>

#include "workloads/device/stream.hpp"

namespace cgconform::workloads {

/// By-value scalars of a batched matrix product C = alpha * op(A) op(B), row-major and dense:
/// A is [batch, m, k] ([batch, k, m] where transposed), B [batch, k, n] ([batch, n, k]), C
/// [batch, m, n].
struct GemmParams {
  std::int32_t batch = 1;
  std::int32_t m = 0;
  std::int32_t n = 0;
  std::int32_t k = 0;
  bool transpose_a = false;
  bool transpose_b = false;
  float alpha = 1.0F;
};

extern const OpDeclaration gemm_op;
extern const OpDeclaration gemm_accumulate_op;
extern const OpDeclaration gemm_bias_op;

/// C = alpha * op(A) op(B), summed up in the arithmetic type of A and B and rounded once to the
/// type of C, which is theirs or their arithmetic type. Operands of rank 2 are one product, of rank
/// 3 a batch of them. Throws InternalError where extents or types do not fit.
void gemm(Stream& stream, const TensorView& c, const TensorView& a, bool transpose_a,
          const TensorView& b, bool transpose_b, std::string label, float alpha = 1.0F);

/// C = op(A) op(B) + bias, a vector of C's columns and type added to every row before the rounding;
/// plus `residual`, of C's shape and type, where it is valid.
void gemm_bias(Stream& stream, const TensorView& c, const TensorView& a, bool transpose_a,
               const TensorView& b, bool transpose_b, const TensorView& bias, std::string label,
               const TensorView& residual = {});

/// C += op(A) op(B): the weight-gradient form.
void gemm_accumulate(Stream& stream, const TensorView& c, const TensorView& a, bool transpose_a,
                     const TensorView& b, bool transpose_b, std::string label);

}  // namespace cgconform::workloads

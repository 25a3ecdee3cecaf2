#include "workloads/ops/gemm.hpp"

#include <vector>

#include "workloads/ops/reference/kernel_access.hpp"
#include "workloads/ops/reference/kernels.hpp"

namespace cgconform::workloads::reference {

namespace {

/// The rows by columns matrix whose transpose lies at `source`.
template <typename T>
std::vector<T> transposed(const T* source, std::int64_t rows, std::int64_t columns) {
  std::vector<T> result(static_cast<std::size_t>(rows * columns));
  for (std::int64_t column = 0; column < columns; ++column) {
    for (std::int64_t row = 0; row < rows; ++row) {
      result[static_cast<std::size_t>(row * columns + column)] = source[column * rows + row];
    }
  }
  return result;
}

/// Every element is summed up over k in ascending order, whatever is transposed; the columns lie in
/// the inner loop so that memory is read in order.
template <typename T>
void multiply(const OpCall& call, bool accumulate) {
  const auto params = call.params.as<GemmParams>();
  const std::int64_t m = params.m;
  const std::int64_t n = params.n;
  const std::int64_t k = params.k;
  std::vector<T> sums(static_cast<std::size_t>(n));
  std::vector<T> own_b;
  for (std::int64_t batch = 0; batch < params.batch; ++batch) {
    T* c = elements<T>(call, 0) + batch * m * n;
    const T* a = elements<T>(call, 1) + batch * m * k;
    const T* b = elements<T>(call, 2) + batch * k * n;
    if (params.transpose_b) {
      own_b = transposed(b, k, n);
      b = own_b.data();
    }
    for (std::int64_t row = 0; row < m; ++row) {
      sums.assign(sums.size(), T{0});
      for (std::int64_t i = 0; i < k; ++i) {
        const T left = params.transpose_a ? a[i * m + row] : a[row * k + i];
        const T* right = b + i * n;
        for (std::int64_t column = 0; column < n; ++column) {
          sums[static_cast<std::size_t>(column)] += left * right[column];
        }
      }
      for (std::int64_t column = 0; column < n; ++column) {
        const T product = static_cast<T>(params.alpha) * sums[static_cast<std::size_t>(column)];
        T& target = c[row * n + column];
        target = accumulate ? target + product : product;
      }
    }
  }
}

}  // namespace

void gemm(const OpCall& call) {
  with_floating_type(call, 0, [&](auto type) { multiply<decltype(type)>(call, false); });
}

void gemm_accumulate(const OpCall& call) {
  with_floating_type(call, 0, [&](auto type) { multiply<decltype(type)>(call, true); });
}

}  // namespace cgconform::workloads::reference

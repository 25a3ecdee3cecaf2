#include "workloads/ops/gemm.hpp"

#include "workloads/ops/reference/kernel_access.hpp"
#include "workloads/ops/reference/kernels.hpp"

namespace cgconform::workloads::reference {

namespace {

template <typename T>
void multiply(const OpCall& call, bool accumulate) {
  const auto params = call.params.as<GemmParams>();
  const std::int64_t m = params.m;
  const std::int64_t n = params.n;
  const std::int64_t k = params.k;
  for (std::int64_t batch = 0; batch < params.batch; ++batch) {
    T* c = elements<T>(call, 0) + batch * m * n;
    const T* a = elements<T>(call, 1) + batch * m * k;
    const T* b = elements<T>(call, 2) + batch * k * n;
    for (std::int64_t row = 0; row < m; ++row) {
      for (std::int64_t column = 0; column < n; ++column) {
        T sum = 0;
        for (std::int64_t i = 0; i < k; ++i) {
          const T left = params.transpose_a ? a[i * m + row] : a[row * k + i];
          const T right = params.transpose_b ? b[column * k + i] : b[i * n + column];
          sum += left * right;
        }
        sum *= static_cast<T>(params.alpha);
        T& target = c[row * n + column];
        target = accumulate ? target + sum : sum;
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

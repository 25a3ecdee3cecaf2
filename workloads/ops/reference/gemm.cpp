#include "workloads/ops/gemm.hpp"

#include <vector>

#include "workloads/ops/reference/kernel_access.hpp"
#include "workloads/ops/reference/kernels.hpp"

namespace cgconform::workloads::reference {

namespace {

/// The rows by columns matrix at `source`, or the one whose transpose lies there, in the type that
/// is computed in.
template <typename T>
std::vector<Arithmetic<T>> matrix_of(const T* source, std::int64_t rows, std::int64_t columns,
                                     bool transposed) {
  std::vector<Arithmetic<T>> result(static_cast<std::size_t>(rows * columns));
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < columns; ++column) {
      result[static_cast<std::size_t>(row * columns + column)] =
          transposed ? source[column * rows + row] : source[row * columns + column];
    }
  }
  return result;
}

/// What is done with the sum of an element: c = alpha * sum (+ c, or + residual, if any, + bias).
enum class Finish : std::uint8_t { write, accumulate, add_bias };

/// Every element is summed up over k in ascending order, whatever is transposed; the columns lie in
/// the inner loop so that memory is read in order. `C` is the type of c and of the bias.
template <typename T, typename C>
void multiply(const OpCall& call, Finish finish) {
  using A = Arithmetic<T>;
  const auto params = call.params.as<GemmParams>();
  const std::int64_t m = params.m;
  const std::int64_t n = params.n;
  const std::int64_t k = params.k;
  const C* residual = finish == Finish::add_bias ? elements<C>(call, 4) : nullptr;
  std::vector<A> sums(static_cast<std::size_t>(n));
  for (std::int64_t batch = 0; batch < params.batch; ++batch) {
    C* c = elements<C>(call, 0) + batch * m * n;
    const std::vector<A> a =
        matrix_of(elements<T>(call, 1) + batch * m * k, m, k, params.transpose_a);
    const std::vector<A> b =
        matrix_of(elements<T>(call, 2) + batch * k * n, k, n, params.transpose_b);
    for (std::int64_t row = 0; row < m; ++row) {
      sums.assign(sums.size(), A{0});
      for (std::int64_t i = 0; i < k; ++i) {
        const A left = a[static_cast<std::size_t>(row * k + i)];
        const A* right = b.data() + i * n;
        for (std::int64_t column = 0; column < n; ++column) {
          sums[static_cast<std::size_t>(column)] += left * right[column];
        }
      }
      for (std::int64_t column = 0; column < n; ++column) {
        A value = static_cast<A>(params.alpha) * sums[static_cast<std::size_t>(column)];
        C& target = c[row * n + column];
        if (finish == Finish::accumulate) value = target + value;
        if (finish == Finish::add_bias) {
          if (residual != nullptr) value += residual[(batch * m + row) * n + column];
          value += elements<C>(call, 3)[column];
        }
        target = static_cast<C>(value);
      }
    }
  }
}

void multiply_typed(const OpCall& call, Finish finish) {
  const bool wide = call.operand(0).dtype != call.operand(1).dtype;
  with_floating_type(call, 1, [&](auto type) {
    using T = decltype(type);
    if (wide) {
      multiply<T, Arithmetic<T>>(call, finish);
    } else {
      multiply<T, T>(call, finish);
    }
  });
}

}  // namespace

void gemm(const OpCall& call) {
  multiply_typed(call, Finish::write);
}

void gemm_accumulate(const OpCall& call) {
  multiply_typed(call, Finish::accumulate);
}

void gemm_bias(const OpCall& call) {
  multiply_typed(call, Finish::add_bias);
}

}  // namespace cgconform::workloads::reference

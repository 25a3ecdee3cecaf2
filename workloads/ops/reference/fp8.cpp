#include "workloads/ops/fp8.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "workloads/ops/reference/kernel_access.hpp"
#include "workloads/ops/reference/kernels.hpp"

namespace cgconform::workloads::reference {

namespace {

template <typename T>
float as_float(T value) {
  return static_cast<float>(static_cast<Arithmetic<T>>(value));
}

/// The largest magnitude among the elements of operand `index`, at least `least`.
float largest_magnitude(const OpCall& call, std::size_t index, float least) {
  float largest = least;
  with_floating_type(call, index, [&](auto type) {
    using T = decltype(type);
    const T* x = elements<T>(call, index);
    for (std::int64_t i = 0; i < call.operand(index).elements(); ++i) {
      largest = std::max(largest, std::abs(as_float(x[i])));
    }
  });
  return largest;
}

void quantise(const OpCall& call) {
  const EightBitFormat format = call.params.as<QuantiseParams>().format;
  const float scale = *elements<const float>(call, 4);
  auto* quantised = elements<std::uint8_t>(call, 0);
  auto* transposed = elements<std::uint8_t>(call, 1);
  const std::int64_t rows = extent(call, 3, 0);
  const std::int64_t columns = extent(call, 3, 1);
  with_floating_type(call, 3, [&](auto type) {
    using T = decltype(type);
    const T* x = elements<T>(call, 3);
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t column = 0; column < columns; ++column) {
        const float scaled = as_float(x[row * columns + column]) * scale;
        const std::uint8_t bits = eight_bit::bits_of(scaled, format);
        quantised[row * columns + column] = bits;
        transposed[column * rows + row] = bits;
      }
    }
  });
  if (!call.operand(2).valid()) return;
  float* amax = elements<float>(call, 2);
  *amax = largest_magnitude(call, 3, *amax);
}

bool is_set(const OpCall& call, std::size_t index) {
  return call.operand(index).valid() && *elements<const float>(call, index) != 0.0F;
}

/// Writes the scale by the largest magnitude, and its reciprocal, to the first two operands.
void put_scale(const OpCall& call, float amax) {
  const EightBitFormat format = call.params.as<QuantiseParams>().format;
  const float wanted = eight_bit::layout_of(format).largest / amax;
  const float scale = amax > 0.0F && std::isfinite(amax) && std::isfinite(wanted) ? wanted : 1.0F;
  *elements<float>(call, 0) = scale;
  *elements<float>(call, 1) = 1.0F / scale;
}

/// The values of [rows, columns] bytes, transposed where asked for: decoding is the cost of a
/// product that looks at each byte once a row of the other operand.
std::vector<float> decoded(const std::uint8_t* bits, std::int64_t rows, std::int64_t columns,
                           EightBitFormat format, bool transposed) {
  std::vector<float> values(static_cast<std::size_t>(rows * columns));
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < columns; ++column) {
      const std::int64_t to = transposed ? column * rows + row : row * columns + column;
      values[static_cast<std::size_t>(to)] =
          eight_bit::value_of(bits[row * columns + column], format);
    }
  }
  return values;
}

void multiply(const OpCall& call, bool accumulates) {
  const auto params = call.params.as<Fp8GemmParams>();
  const std::vector<float> a =
      decoded(elements<const std::uint8_t>(call, 1), params.m, params.k, params.format_a, false);
  const std::vector<float> b =
      decoded(elements<const std::uint8_t>(call, 2), params.n, params.k, params.format_b, true);
  const float descale = *elements<const float>(call, 3) * *elements<const float>(call, 4);
  const auto columns = static_cast<std::size_t>(params.n);
  const auto depth = static_cast<std::size_t>(params.k);
  std::vector<float> sums(columns);
  with_floating_type(call, 0, [&](auto type) {
    using T = decltype(type);
    using A = Arithmetic<T>;
    T* c = elements<T>(call, 0);
    for (std::size_t row = 0; row < static_cast<std::size_t>(params.m); ++row) {
      std::fill(sums.begin(), sums.end(), 0.0F);
      for (std::size_t i = 0; i < depth; ++i) {
        const float factor = a[row * depth + i];
        for (std::size_t column = 0; column < columns; ++column) {
          sums[column] += factor * b[i * columns + column];
        }
      }
      for (std::size_t column = 0; column < columns; ++column) {
        T& target = c[row * columns + column];
        const A product = static_cast<A>(sums[column] * descale);
        target = static_cast<T>(accumulates ? static_cast<A>(target) + product : product);
      }
    }
  });
}

}  // namespace

void fp8_quantise(const OpCall& call) {
  quantise(call);
}

void fp8_quantise_weight(const OpCall& call) {
  if (is_set(call, 5)) return;
  quantise(call);
  if (call.operand(6).valid()) *elements<float>(call, 6) += 1.0F;
}

void fp8_current_scale(const OpCall& call) {
  if (is_set(call, 3)) return;
  put_scale(call, largest_magnitude(call, 2, 0.0F));
}

void fp8_amax(const OpCall& call) {
  float* amax = elements<float>(call, 0);
  *amax = largest_magnitude(call, 1, *amax);
}

void fp8_scale_of_amax(const OpCall& call) {
  put_scale(call, *elements<const float>(call, 2));
}

void fp8_update_scales(const OpCall& call) {
  const auto params = call.params.as<UpdateScalesParams>();
  float* scale = elements<float>(call, 0);
  float* descale = elements<float>(call, 1);
  float* history = elements<float>(call, 2);
  float* newest = elements<float>(call, 3);
  const auto* largest = elements<const float>(call, 5);
  const std::int64_t stride = extent(call, 1, 1);
  const std::int64_t steps = extent(call, 2, 0);
  for (std::int64_t tensor = params.first; tensor < params.first + params.count; ++tensor) {
    newest[tensor] = history[tensor];
    float amax = 0.0F;
    for (std::int64_t step = 0; step < (params.most_recent ? 1 : steps); ++step) {
      amax = std::max(amax, history[step * params.tensors + tensor]);
    }
    const float wanted = largest[tensor] / (params.headroom * amax);
    if (amax > 0.0F && std::isfinite(amax) && std::isfinite(wanted)) scale[tensor] = wanted;
    descale[tensor * stride] = 1.0F / scale[tensor];
    for (std::int64_t step = steps - 1; step > 0; --step) {
      history[step * params.tensors + tensor] = history[(step - 1) * params.tensors + tensor];
    }
    history[tensor] = 0.0F;
  }
  *elements<float>(call, 4) += 1.0F;
}

void fp8_gemm(const OpCall& call) {
  multiply(call, false);
}

void fp8_gemm_accumulate(const OpCall& call) {
  multiply(call, true);
}

}  // namespace cgconform::workloads::reference

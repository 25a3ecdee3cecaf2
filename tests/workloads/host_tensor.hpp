#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <type_traits>
#include <utility>
#include <vector>

#include "workloads/device/element_type.hpp"
#include "workloads/device/sixteen_bit.hpp"
#include "workloads/device/tensor.hpp"

namespace cgconform::workloads::test {

/// A tensor in host memory, for kernels that are called directly.
template <typename T>
struct HostTensor {
  HostTensor(const Shape& extents, std::vector<T> content)
      : shape(extents), values(std::move(content)) {}
  explicit HostTensor(const Shape& extents, T value = T{})
      : HostTensor(extents, std::vector<T>(static_cast<std::size_t>(extents.elements()), value)) {}

  TensorView view() { return {values.data(), dtype_of<T>(), shape}; }
  T& operator[](std::size_t index) { return values[index]; }
  const T& operator[](std::size_t index) const { return values[index]; }
  std::size_t size() const { return values.size(); }

  Shape shape;
  std::vector<T> values;
};

using Random = std::mt19937_64;

inline std::int64_t random_extent(Random& random, std::int64_t smallest, std::int64_t largest) {
  return std::uniform_int_distribution<std::int64_t>(smallest, largest)(random);
}

/// Values in [-2, 2] that fp32 represents exactly, so that both types can start from the same.
template <typename T>
HostTensor<T> random_tensor(Random& random, const Shape& shape) {
  HostTensor<T> tensor(shape);
  std::uniform_real_distribution<double> distribution(-2.0, 2.0);
  for (T& value : tensor.values) {
    value = static_cast<T>(static_cast<float>(distribution(random)));
  }
  return tensor;
}

inline HostTensor<std::int32_t> random_indices(Random& random, std::int64_t count,
                                               std::int64_t bound) {
  HostTensor<std::int32_t> tensor(Shape{count});
  for (std::int32_t& value : tensor.values) {
    value = static_cast<std::int32_t>(random_extent(random, 0, bound - 1));
  }
  return tensor;
}

}  // namespace cgconform::workloads::test

#include "workloads/ops/packed_attention.hpp"

#include <algorithm>
#include <cmath>

#include "workloads/ops/reference/kernel_access.hpp"
#include "workloads/ops/reference/kernels.hpp"

namespace cgconform::workloads::reference {

void packed_softmax_forward(const OpCall& call) {
  with_floating_type(call, 0, [&](auto type) {
    using T = decltype(type);
    using A = Arithmetic<T>;
    const auto params = call.params.as<PackedSoftmaxParams>();
    const auto scale = static_cast<A>(params.scale);
    const std::int64_t length = extent(call, 0, 2);
    const std::int64_t rows = call.operand(0).elements() / length;
    const auto* all_borders = elements<std::int32_t>(call, 2);
    for (std::int64_t row = 0; row < rows; ++row) {
      T* probabilities = elements<T>(call, 0) + row * length;
      const T* scores = elements<T>(call, 1) + row * length;
      const std::int64_t query = row % length;
      const std::int32_t* borders = all_borders + row / length / params.heads * params.borders;
      std::int64_t first = 0;
      for (std::int32_t i = 0; i < params.borders; ++i) {
        if (borders[i] <= query) first = std::max<std::int64_t>(first, borders[i]);
      }
      A largest = scores[first] * scale;
      for (std::int64_t i = first; i <= query; ++i) largest = std::max(largest, scores[i] * scale);
      A sum = 0;
      for (std::int64_t i = first; i <= query; ++i) sum += std::exp(scores[i] * scale - largest);
      std::fill(probabilities, probabilities + length, T{});
      for (std::int64_t i = first; i <= query; ++i) {
        probabilities[i] = static_cast<T>(std::exp(scores[i] * scale - largest) / sum);
      }
    }
  });
}

}  // namespace cgconform::workloads::reference

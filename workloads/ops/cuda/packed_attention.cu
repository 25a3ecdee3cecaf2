#include "workloads/ops/cuda/kernels.hpp"
#include "workloads/ops/cuda/packs.cuh"
#include "workloads/ops/packed_attention.hpp"

namespace cgconform::workloads::cuda {

namespace {

template <typename T>
void packed_softmax_forward_of(const OpCall& call, const LaunchContext& context) {
  using A = Arithmetic<T>;
  const auto params = call.params.as<PackedSoftmaxParams>();
  const A scale = A(params.scale);
  const std::int64_t length = extent(call, 0, 2);
  T* probabilities = elements<T>(call, 0);
  const T* scores = elements<T>(call, 1);
  const std::int32_t* all_borders = elements<std::int32_t>(call, 2);
  const bool packed = length % pack_size<T> == 0 && on_pack_borders(probabilities, scores);
  for_each_row(call.operand(0).elements() / length, context, [=] __device__(std::int64_t row) {
    const T* in = scores + row * length;
    const std::int64_t query = row % length;
    const std::int32_t* borders = all_borders + row / length / params.heads * params.borders;
    std::int64_t first = 0;
    for (std::int32_t i = 0; i < params.borders; ++i) {
      const std::int64_t border = borders[i];
      if (border <= query) first = larger(first, border);
    }
    const auto seen = [=](std::int64_t key) { return key >= first && key <= query; };
    // Starts at a score that the row has, so that every difference below is finite.
    A mine = widened(in[first]) * scale;
    for_each_in_row<T>(query + 1, packed, [&](const Lanes& lanes) {
      const Pack<T> values = load(in, lanes);
      for_each_lane<T>(lanes, [&](int lane) {
        if (seen(lanes.first + lane)) mine = larger(mine, widened(values.values[lane]) * scale);
      });
    });
    const A largest = block_max(mine);
    A sum = 0;
    for_each_in_row<T>(query + 1, packed, [&](const Lanes& lanes) {
      const Pack<T> values = load(in, lanes);
      for_each_lane<T>(lanes, [&](int lane) {
        if (seen(lanes.first + lane)) sum += exp(widened(values.values[lane]) * scale - largest);
      });
    });
    sum = block_sum(sum);
    for_each_in_row<T>(length, packed, [&](const Lanes& lanes) {
      const Pack<T> values = load(in, lanes);
      Pack<T> results{};
      for_each_lane<T>(lanes, [&](int lane) {
        const A power = exp(widened(values.values[lane]) * scale - largest);
        results.values[lane] = narrowed<T>(seen(lanes.first + lane) ? power / sum : A(0));
      });
      store(probabilities + row * length, lanes, results);
    });
  });
}

}  // namespace

void packed_softmax_forward(const OpCall& call, const LaunchContext& context) {
  launch_typed(call, context, 0, CGCONFORM_FLOATING_KERNELS(packed_softmax_forward_of));
}

}  // namespace cgconform::workloads::cuda

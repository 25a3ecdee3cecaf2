#include "workloads/ops/cuda/kernels.hpp"
#include "workloads/ops/cuda/launch.cuh"
#include "workloads/ops/head_groups.hpp"

namespace cgconform::workloads::cuda {

namespace {

template <typename T>
void take_heads_of(const OpCall& call, const LaunchContext& context) {
  const auto params = call.params.as<HeadGroupsParams>();
  T* heads = elements<T>(call, 0);
  const T* rows = elements<T>(call, 1);
  for_each(call.operand(0).elements(), context, [=] __device__(std::int64_t i) {
    const std::int64_t position = i / params.size % params.length;
    const std::int64_t head = i / params.size / params.length;
    const std::int64_t row = head / params.heads * params.length + position;
    const std::int64_t column = head % params.heads / params.repeat * params.size;
    heads[i] = rows[row * params.width + params.first_column + column + i % params.size];
  });
}

template <typename T>
void merge_head_groups_of(const OpCall& call, const LaunchContext& context) {
  using A = Arithmetic<T>;
  const auto params = call.params.as<HeadGroupsParams>();
  const std::int64_t groups = params.heads / params.repeat;
  T* rows = elements<T>(call, 0);
  const T* query = elements<T>(call, 1);
  const T* key = elements<T>(call, 2);
  const T* value = elements<T>(call, 3);
  for_each(call.operand(0).elements(), context, [=] __device__(std::int64_t i) {
    const std::int64_t row = i / params.width;
    const std::int64_t head = i % params.width / params.size;
    const bool of_query = head < params.heads;
    const std::int64_t group = of_query ? head : (head - params.heads) % groups;
    const std::int64_t repeat = of_query ? 1 : params.repeat;
    const T* heads = of_query ? query : (head - params.heads < groups ? key : value);
    A sum = 0;
    for (std::int64_t copy = 0; copy < repeat; ++copy) {
      const std::int64_t from = row / params.length * params.heads + group * repeat + copy;
      const std::int64_t place = from * params.length + row % params.length;
      sum += widened(heads[place * params.size + i % params.size]);
    }
    rows[i] = narrowed<T>(sum);
  });
}

}  // namespace

void take_heads(const OpCall& call, const LaunchContext& context) {
  launch_typed(call, context, 0, CGCONFORM_FLOATING_KERNELS(take_heads_of));
}

void merge_head_groups(const OpCall& call, const LaunchContext& context) {
  launch_typed(call, context, 0, CGCONFORM_FLOATING_KERNELS(merge_head_groups_of));
}

}  // namespace cgconform::workloads::cuda

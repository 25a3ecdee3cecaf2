#include <algorithm>

#include "workloads/ops/cuda/kernels.hpp"
#include "workloads/ops/cuda/launch.cuh"
#include "workloads/ops/expert_rows.hpp"

namespace cgconform::workloads::cuda {

namespace {

/// True for the index of a row or place; wrong indices give wrong numbers, not wild accesses.
__device__ bool is_within(std::int64_t index, std::int64_t count) {
  return index >= 0 && index < count;
}

/// What the slots of one expert are made of.
struct SlotTables {
  std::int32_t* slots;
  std::int32_t* sources;
  const std::int32_t* experts;
  std::int64_t places;
  std::int64_t rows;
};

/// Gives the places of an expert rows from `first` on, at most `room`, in the order of places,
/// which are searched in tiles of a block's threads.
__device__ void assign_expert(const SlotTables& tables, std::int64_t expert, std::int64_t first,
                              std::int64_t room) {
  __shared__ int found[threads_per_block / warp_size];
  const int lane = static_cast<int>(threadIdx.x) % warp_size;
  const int warp = static_cast<int>(threadIdx.x) / warp_size;
  std::int64_t taken = 0;
  for (std::int64_t tile = 0; tile < tables.places; tile += threads_per_block) {
    const std::int64_t place = tile + threadIdx.x;
    const bool mine = place < tables.places && tables.experts[place] == expert;
    const unsigned ballot = __ballot_sync(0xFFFFFFFFU, mine);
    if (lane == 0) found[warp] = __popc(ballot);
    __syncthreads();
    std::int64_t number = taken + __popc(ballot & ((1U << lane) - 1U));
    for (int other = 0; other < threads_per_block / warp_size; ++other) {
      if (other < warp) number += found[other];
      taken += found[other];
    }
    const std::int64_t row = first + number;
    if (mine && number < room && is_within(row, tables.rows)) {
      tables.slots[place] = static_cast<std::int32_t>(row);
      tables.sources[row] = static_cast<std::int32_t>(place);
    }
    __syncthreads();
  }
}

template <typename T>
void dispatch_rows_of(const OpCall& call, const LaunchContext& context) {
  using A = Arithmetic<T>;
  const std::int64_t top_k = call.params.as<SlotParams>().top_k;
  const std::int64_t hidden = extent(call, 0, 1);
  const std::int64_t places = extent(call, 1, 0) * top_k;
  T* rows = elements<T>(call, 0);
  const T* x = elements<T>(call, 1);
  const auto* sources = elements<std::int32_t>(call, 2);
  const A* weights = elements<A>(call, 3);
  for_each(call.operand(0).elements(), context, [=] __device__(std::int64_t i) {
    const std::int64_t place = sources[i / hidden];
    if (!is_within(place, places)) {
      rows[i] = narrowed<T>(A(0));
      return;
    }
    const A weight = weights == nullptr ? A(1) : weights[place];
    rows[i] = narrowed<T>(weight * widened(x[place / top_k * hidden + i % hidden]));
  });
}

template <typename T>
void combine_rows_of(const OpCall& call, const LaunchContext& context) {
  using A = Arithmetic<T>;
  const std::int64_t hidden = extent(call, 0, 1);
  const std::int64_t count = extent(call, 1, 0);
  const std::int64_t top_k = extent(call, 2, 1);
  T* output = elements<T>(call, 0);
  const T* rows = elements<T>(call, 1);
  const auto* slots = elements<std::int32_t>(call, 2);
  const A* weights = elements<A>(call, 3);
  for_each(call.operand(0).elements(), context, [=] __device__(std::int64_t i) {
    const std::int64_t first = i / hidden * top_k;
    A sum = 0;
    for (std::int64_t place = first; place < first + top_k; ++place) {
      if (!is_within(slots[place], count)) continue;
      const A weight = weights == nullptr ? A(1) : weights[place];
      sum += weight * widened(rows[slots[place] * hidden + i % hidden]);
    }
    output[i] = narrowed<T>(sum);
  });
}

template <typename T>
void combine_weights_backward_of(const OpCall& call, const LaunchContext& context) {
  using A = Arithmetic<T>;
  const std::int64_t hidden = extent(call, 1, 1);
  const std::int64_t count = extent(call, 2, 0);
  const std::int64_t top_k = extent(call, 3, 1);
  A* grad_weights = elements<A>(call, 0);
  const T* grad_output = elements<T>(call, 1);
  const T* rows = elements<T>(call, 2);
  const auto* slots = elements<std::int32_t>(call, 3);
  for_each_row(call.operand(3).elements(), context, [=] __device__(std::int64_t place) {
    A sum = 0;
    if (is_within(slots[place], count)) {
      for (std::int64_t i = threadIdx.x; i < hidden; i += blockDim.x) {
        sum += widened(grad_output[place / top_k * hidden + i]) *
               widened(rows[slots[place] * hidden + i]);
      }
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) grad_weights[place] = sum;
  });
}

}  // namespace

void assign_slots(const OpCall& call, const LaunchContext& context) {
  const std::int64_t capacity = call.params.as<SlotParams>().capacity;
  const SlotTables tables{elements<std::int32_t>(call, 0), elements<std::int32_t>(call, 1),
                          elements<std::int32_t>(call, 3), call.operand(3).elements(),
                          extent(call, 1, 0)};
  auto* overflow = elements<std::int32_t>(call, 2);
  const auto* load = elements<std::int32_t>(call, 4);
  for_each(std::max(tables.places, tables.rows), context, [=] __device__(std::int64_t i) {
    if (i < tables.places) tables.slots[i] = -1;
    if (i < tables.rows) tables.sources[i] = -1;
  });
  // A block owns an expert and walks the places in order, so that no two blocks write one row.
  for_each_row(extent(call, 4, 0), context, [=] __device__(std::int64_t expert) {
    std::int64_t first = 0;
    for (std::int64_t other = 0; other < expert; ++other) {
      first += capacity > 0 ? capacity : load[other];
    }
    const std::int64_t room = capacity > 0 ? capacity : load[expert];
    assign_expert(tables, expert, first, room);
    if (threadIdx.x == 0) {
      const std::int64_t excess = load[expert] - room;
      overflow[expert] = static_cast<std::int32_t>(excess > 0 ? excess : 0);
    }
  });
}

void dispatch_rows(const OpCall& call, const LaunchContext& context) {
  launch_typed(call, context, 0, CGCONFORM_FLOATING_KERNELS(dispatch_rows_of));
}

void combine_rows(const OpCall& call, const LaunchContext& context) {
  launch_typed(call, context, 0, CGCONFORM_FLOATING_KERNELS(combine_rows_of));
}

void combine_weights_backward(const OpCall& call, const LaunchContext& context) {
  launch_typed(call, context, 1, CGCONFORM_FLOATING_KERNELS(combine_weights_backward_of));
}

}  // namespace cgconform::workloads::cuda

#pragma once

#include <cstdint>

#include "workloads/ops/cuda/launch.cuh"

/// Sums over the rows of a matrix, a column to a lane.
namespace cgconform::workloads::cuda {

/// Two numbers that are summed up side by side.
template <typename A>
struct ColumnPair {
  A first{};
  A second{};
};

constexpr int column_warps = 32;

template <typename A, typename Value>
__global__ void add_column_sums_kernel(std::int64_t rows, std::int64_t columns, A* first, A* second,
                                       Value value) {
  __shared__ ColumnPair<A> partial[column_warps][warp_size];
  const int lane = static_cast<int>(threadIdx.x) % warp_size;
  const int warp = static_cast<int>(threadIdx.x) / warp_size;
  const std::int64_t column = std::int64_t{blockIdx.x} * warp_size + lane;
  ColumnPair<A> sum;
  if (column < columns) {
    for (std::int64_t row = warp; row < rows; row += column_warps) {
      const ColumnPair<A> one = value(row, column);
      sum.first += one.first;
      sum.second += one.second;
    }
  }
  partial[warp][lane] = sum;
  __syncthreads();
  if (warp != 0 || column >= columns) return;
  for (int other = 1; other < column_warps; ++other) {
    sum.first += partial[other][lane].first;
    sum.second += partial[other][lane].second;
  }
  first[column] += sum.first;
  if (second != nullptr) second[column] += sum.second;
}

/// Adds, for each column, the sum over rows of value(row, column) to two vectors, of which the
/// second may be null. Warps walk every 32nd row, and their sums are combined in order of the
/// warps, so that the result never depends on timing.
template <typename A, typename Value>
void add_column_sums(std::int64_t rows, std::int64_t columns, A* first, A* second,
                     const LaunchContext& context, Value value) {
  if (columns == 0) return;
  const auto blocks = static_cast<unsigned>((columns + warp_size - 1) / warp_size);
  add_column_sums_kernel<<<blocks, column_warps * warp_size, 0, context.stream>>>(
      rows, columns, first, second, value);
}

}  // namespace cgconform::workloads::cuda

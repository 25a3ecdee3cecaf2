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

/// The sums of the columns [32 * block, 32 * block + 32), by a block of so many warps.
template <int Warps, typename A, typename Value>
__device__ void add_sums_of_columns(std::int64_t block, std::int64_t rows, std::int64_t columns,
                                    A* first, A* second, const Value& value) {
  __shared__ ColumnPair<A> partial[Warps][warp_size];
  const int lane = static_cast<int>(threadIdx.x) % warp_size;
  const int warp = static_cast<int>(threadIdx.x) / warp_size;
  const std::int64_t column = block * warp_size + lane;
  ColumnPair<A> sum;
  if (column < columns) {
    for (std::int64_t row = warp; row < rows; row += Warps) {
      const ColumnPair<A> one = value(row, column);
      sum.first += one.first;
      sum.second += one.second;
    }
  }
  partial[warp][lane] = sum;
  __syncthreads();
  if (warp != 0 || column >= columns) return;
  for (int other = 1; other < Warps; ++other) {
    sum.first += partial[other][lane].first;
    sum.second += partial[other][lane].second;
  }
  first[column] += sum.first;
  if (second != nullptr) second[column] += sum.second;
}

template <typename A, typename Value>
__global__ void __launch_bounds__(column_warps* warp_size)
    add_column_sums_kernel(std::int64_t rows, std::int64_t columns, A* first, A* second,
                           Value value) {
  add_sums_of_columns<column_warps>(blockIdx.x, rows, columns, first, second, value);
}

template <typename A, typename Value, typename RowBody>
__global__ void __launch_bounds__(threads_per_block)
    add_column_sums_beside_rows_kernel(std::int64_t rows, std::int64_t columns, A* first, A* second,
                                       Value value, RowBody body) {
  const std::int64_t block = blockIdx.x;
  if (block < rows) {
    body(block);
  } else {
    add_sums_of_columns<threads_per_block / warp_size>(block - rows, rows, columns, first, second,
                                                       value);
  }
}

inline unsigned column_blocks(std::int64_t columns) {
  return static_cast<unsigned>((columns + warp_size - 1) / warp_size);
}

/// Adds, for each column, the sum over rows of value(row, column) to two vectors, of which the
/// second may be null. Warps walk every 32nd row, and their sums are combined in order of the
/// warps, so that the result never depends on timing.
template <typename A, typename Value>
void add_column_sums(std::int64_t rows, std::int64_t columns, A* first, A* second,
                     const LaunchContext& context, Value value) {
  if (columns == 0) return;
  add_column_sums_kernel<<<column_blocks(columns), column_warps * warp_size, 0, context.stream>>>(
      rows, columns, first, second, value);
}

/// add_column_sums and body(row) for each row, which may not depend on each other: one launch where
/// there are so few rows that a launch is what costs.
template <typename A, typename Value, typename RowBody>
void add_column_sums_beside_rows(std::int64_t rows, std::int64_t columns, A* first, A* second,
                                 const LaunchContext& context, Value value, RowBody body) {
  constexpr std::int64_t few_rows = 1024;
  if (rows > few_rows) {
    for_each_row(rows, context, body);
    add_column_sums(rows, columns, first, second, context, value);
    return;
  }
  const auto blocks = static_cast<unsigned>(rows) + column_blocks(columns);
  if (blocks == 0) return;
  add_column_sums_beside_rows_kernel<<<blocks, threads_per_block, 0, context.stream>>>(
      rows, columns, first, second, value, body);
}

}  // namespace cgconform::workloads::cuda

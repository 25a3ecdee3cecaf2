#pragma once

#include <algorithm>
#include <cstdint>

/// How attention in one kernel lays out a block's shared memory, counted in elements of the type
/// that it computes in.
namespace cgconform::workloads::cuda {

/// Rows of results that a block makes.
constexpr int attention_rows = 16;
/// Queries or keys that a row's sums run over at a time, one to a lane.
constexpr int attention_tile = 32;
/// Keys or values that the forward holds at a time.
constexpr int attention_chunk = 2 * attention_tile;
/// Columns of a head that a thread keeps sums of at most, a tile apart.
constexpr int attention_columns = 2;
constexpr int largest_attention_size = attention_tile * attention_columns;
constexpr std::int64_t longest_attention = 128;
/// Dynamic shared memory that every kernel may have: 48 KiB.
constexpr std::int64_t shared_memory_bytes = 49152;

/// Of a left operand, stored transposed: a block's rows for each column, padded by 16 bytes of fp32
/// so that four rows are one aligned access and columns spread over the banks.
constexpr int left_stride = attention_rows + 4;
/// From row to row of a right operand; odd, so that a column spreads over the banks.
constexpr int right_stride(int size) {
  return size | 1;
}

/// Where the parts of the forward's memory begin.
struct ForwardMemory {
  int queries = 0;
  int scores;
  int right;
  int end;

  constexpr ForwardMemory(int length, int size)
      : scores(queries + size * left_stride),
        right(scores +
              (length + attention_tile - 1) / attention_tile * attention_tile * left_stride),
        end(right + attention_chunk * right_stride(size)) {}
};

/// Where those of the backward's begin.
struct BackwardMemory {
  int own = 0;
  int probabilities;
  int slopes;
  int first;
  int second;
  int dots;
  int end;

  constexpr explicit BackwardMemory(int size)
      : probabilities(own + size * left_stride),
        slopes(probabilities + attention_tile * left_stride),
        first(slopes + attention_tile * left_stride),
        second(first + attention_tile * right_stride(size)),
        dots(second + attention_tile * right_stride(size)),
        end(dots + attention_tile) {}
};

/// True where both directions have room; `element_bytes` of the type that is computed in.
constexpr bool fits_shared_memory(std::int64_t length, std::int64_t size,
                                  std::int64_t element_bytes) {
  if (length > longest_attention || size > largest_attention_size) return false;
  const ForwardMemory forward(static_cast<int>(length), static_cast<int>(size));
  const BackwardMemory backward(static_cast<int>(size));
  return std::max(forward.end, backward.end) * element_bytes <= shared_memory_bytes;
}

}  // namespace cgconform::workloads::cuda

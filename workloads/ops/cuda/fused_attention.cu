#include <cmath>
#include <type_traits>

#include "workloads/ops/cuda/fused_attention_memory.hpp"
#include "workloads/ops/cuda/kernels.hpp"
#include "workloads/ops/cuda/launch.cuh"
#include "workloads/ops/fused_attention.hpp"

/// A block makes a tile of rows of one head's results: of queries or, in the backward, also of
/// keys, whose sums run over the queries. Every sum is that of one thread, which adds in ascending
/// order.
namespace cgconform::workloads::cuda {

namespace {

static_assert(attention_tile == warp_size, "a lane is a column of a tile");
constexpr int warps_per_block = threads_per_block / warp_size;
constexpr int rows_per_thread = attention_tile / warps_per_block;
static_assert(left_stride * sizeof(float) % 16 == 0);

/// A thread's rows in one column of a left operand; one or two 16-byte accesses.
template <typename A>
struct alignas(16) ThreadRows {
  A values[rows_per_thread];
};

template <typename A>
__device__ ThreadRows<A>& thread_rows(A* left) {
  return *reinterpret_cast<ThreadRows<A>*>(left);
}
template <typename A>
__device__ const ThreadRows<A>& thread_rows(const A* left) {
  return *reinterpret_cast<const ThreadRows<A>*>(left);
}

/// Sums of a thread's rows, in columns that lie a tile apart.
template <typename A>
struct TileSums {
  A values[attention_columns][rows_per_thread];
};

struct Extents {
  int heads;  ///< of each sequence
  int length;
  int size;

  __host__ __device__ int tiles() const { return (length + attention_tile - 1) / attention_tile; }
};

__device__ int warp() {
  return static_cast<int>(threadIdx.x) / warp_size;
}
__device__ int lane() {
  return static_cast<int>(threadIdx.x) % warp_size;
}
/// The first of this thread's rows in a tile.
__device__ int thread_row() {
  return warp() * rows_per_thread;
}

/// Rows of one head among those of all heads: `stride` elements from one to the next. Within a
/// sequence, which is short, 32 bits are enough, and they save registers.
template <typename T>
struct HeadRows {
  T* first;
  int stride;
};

/// Those of part `part` of a tensor [sequences * length, parts * heads * size].
template <typename T>
__device__ HeadRows<T> rows_side_by_side(T* rows, int part, int parts, const Extents& extents,
                                         std::int64_t head) {
  const int stride = parts * extents.heads * extents.size;
  const std::int64_t column = (part * extents.heads + head % extents.heads) * extents.size;
  return {rows + head / extents.heads * extents.length * stride + column, stride};
}

/// Queries, keys and values, each [sequences * heads, length, size]; or, side by side, all in the
/// first, and the others are null.
template <typename T>
struct HeadParts {
  T* heads[3];

  /// The rows of one head in part 0, 1 or 2.
  __device__ HeadRows<T> rows(int part, const Extents& extents, std::int64_t head) const {
    if (heads[1] == nullptr) return rows_side_by_side(heads[0], part, 3, extents, head);
    return {heads[part] + head * extents.length * extents.size, extents.size};
  }
};
constexpr int query_part = 0;
constexpr int key_part = 1;
constexpr int value_part = 2;

/// Queries in operand `first`, keys and values in those from `others` on.
template <typename T>
HeadParts<T> parts_of(const OpCall& call, std::size_t first, std::size_t others) {
  using Element = std::remove_const_t<T>;
  return {elements<Element>(call, first), elements<Element>(call, others),
          elements<Element>(call, others + 1)};
}

template <typename A>
__device__ A* shared_memory() {
  extern __shared__ double2 memory[];
  return reinterpret_cast<A*>(memory);
}

/// A thread's part of a tile of rows on its way from global to shared memory. All of a phase is
/// fetched before any of it is put, so that it takes the latency of one access.
template <typename A>
struct TileValues {
  A values[rows_per_thread][attention_columns];
};

/// The tile from row `first` on; rows beyond the length, and columns beyond the size, are 0.
template <typename T>
__device__ TileValues<Arithmetic<T>> fetch_tile(const HeadRows<const T>& rows, int first,
                                                const Extents& extents) {
  TileValues<Arithmetic<T>> tile;
#pragma unroll
  for (int i = 0; i < rows_per_thread; ++i) {
    const int row = first + warp() + i * warps_per_block;
#pragma unroll
    for (int j = 0; j < attention_columns; ++j) {
      const int column = j * attention_tile + lane();
      const bool exists = row < extents.length && column < extents.size;
      tile.values[i][j] =
          exists ? widened(rows.first[row * rows.stride + column]) : Arithmetic<T>(0);
    }
  }
  return tile;
}

/// Element (row, column) goes to shared[row * row_step + column * column_step].
template <typename A>
__device__ void put_tile(A* shared, int row_step, int column_step, const TileValues<A>& tile,
                         const Extents& extents) {
#pragma unroll
  for (int i = 0; i < rows_per_thread; ++i) {
    const int row = warp() + i * warps_per_block;
#pragma unroll
    for (int j = 0; j < attention_columns; ++j) {
      const int column = j * attention_tile + lane();
      if (column < extents.size) {
        shared[row * row_step + column * column_step] = tile.values[i][j];
      }
    }
  }
}

template <typename A>
__device__ void put_left(A* shared, const TileValues<A>& tile, const Extents& extents) {
  put_tile(shared, 1, left_stride, tile, extents);
}
template <typename A>
__device__ void put_right(A* shared, const TileValues<A>& tile, const Extents& extents) {
  put_tile(shared, right_stride(extents.size), 1, tile, extents);
}

/// sums[r] += sum over i < count of left[i * left_stride + r] * right[i * step]
template <typename A>
__device__ void multiply(A (&sums)[rows_per_thread], const A* left, const A* right, int step,
                         int count) {
#pragma unroll 8
  for (int i = 0; i < count; ++i) {
    const ThreadRows<A> rows = thread_rows(left + i * left_stride);
    const A factor = right[i * step];
#pragma unroll
    for (int r = 0; r < rows_per_thread; ++r) sums[r] += rows.values[r] * factor;
  }
}

/// Adds the product of a left operand of a tile of columns and a right operand of a tile of rows.
template <typename A>
__device__ void add_product(TileSums<A>& sums, const A* left, const A* right, int size) {
#pragma unroll
  for (int i = 0; i < attention_columns; ++i) {
    const int first = i * attention_tile;
    if (first >= size) continue;
    // Lanes beyond the last column repeat it, and store nothing.
    const int column = first + lane() < size ? first + lane() : size - 1;
    multiply(sums.values[i], left + thread_row(), right + column, right_stride(size),
             attention_tile);
  }
}

template <typename T>
__device__ void store(const HeadRows<T>& rows, const TileSums<Arithmetic<T>>& sums, int first,
                      const Extents& extents) {
#pragma unroll
  for (int i = 0; i < attention_columns; ++i) {
    const int column = i * attention_tile + lane();
#pragma unroll
    for (int r = 0; r < rows_per_thread; ++r) {
      const int row = first + thread_row() + r;
      if (row >= extents.length || column >= extents.size) continue;
      rows.first[row * rows.stride + column] = narrowed<T>(sums.values[i][r]);
    }
  }
}

/// Combines the values of a warp's threads in a fixed tree. Every thread gets the result.
template <typename A, typename Combine>
__device__ A warp_reduce(A value, Combine combine) {
  for (int distance = warp_size / 2; distance > 0; distance /= 2) {
    value = combine(value, __shfl_xor_sync(0xFFFFFFFFU, value, distance));
  }
  return value;
}

template <typename T>
struct ForwardOperands {
  T* probabilities;
  T* merged;
  HeadParts<const T> heads;
};

/// Scaled scores of a tile of queries for the keys up to its last one, of which `tile` is the first
/// tile, stored as a left operand; -inf where a key is not seen. A thread keeps the largest of
/// those that it makes.
template <typename A, typename T>
__device__ void make_scores(const ForwardMemory& memory, const HeadRows<const T>& keys,
                            TileValues<A> tile, const Extents& extents, A scale, int first,
                            A (&largest)[rows_per_thread]) {
  A* shared = shared_memory<A>();
  A* right = shared + memory.right;
  for (int first_key = 0; first_key <= first; first_key += attention_tile) {
    __syncthreads();
    put_right(right, tile, extents);
    __syncthreads();
    if (first_key < first) tile = fetch_tile(keys, first_key + attention_tile, extents);
    A sums[rows_per_thread] = {};
    multiply(sums, shared + memory.queries + thread_row(),
             right + lane() * right_stride(extents.size), 1, extents.size);
    const int key = first_key + lane();
    ThreadRows<A> scores;
#pragma unroll
    for (int r = 0; r < rows_per_thread; ++r) {
      const bool seen = key <= first + thread_row() + r;
      scores.values[r] = seen ? sums[r] * scale : A(-INFINITY);
      largest[r] = larger(largest[r], scores.values[r]);
    }
    thread_rows(shared + memory.scores + key * left_stride + thread_row()) = scores;
  }
}

/// The scores of a tile become probabilities, in place and, rounded, in the operand. Each thread
/// works on the scores that it made.
template <typename T, typename A>
__device__ void make_probabilities(const ForwardMemory& memory, T* probabilities,
                                   const Extents& extents, int first,
                                   A (&largest)[rows_per_thread]) {
  A* scores = shared_memory<A>() + memory.scores + thread_row();
  const int first_query = first + thread_row();
  A sums[rows_per_thread] = {};
#pragma unroll
  for (int r = 0; r < rows_per_thread; ++r) largest[r] = warp_reduce(largest[r], Larger{});
  for (int key = lane(); key < first + attention_tile; key += attention_tile) {
    ThreadRows<A> rows = thread_rows(scores + key * left_stride);
#pragma unroll
    for (int r = 0; r < rows_per_thread; ++r) {
      const bool seen = key <= first_query + r;
      rows.values[r] = seen ? exp(rows.values[r] - largest[r]) : A(0);
      sums[r] += rows.values[r];
    }
    thread_rows(scores + key * left_stride) = rows;
  }
#pragma unroll
  for (int r = 0; r < rows_per_thread; ++r) sums[r] = warp_reduce(sums[r], Plus{});
  for (int key = lane(); key < extents.tiles() * attention_tile; key += attention_tile) {
    ThreadRows<A> rows{};
    if (key < first + attention_tile) {
      rows = thread_rows(scores + key * left_stride);
#pragma unroll
      for (int r = 0; r < rows_per_thread; ++r) rows.values[r] /= sums[r];
      thread_rows(scores + key * left_stride) = rows;
    }
#pragma unroll
    for (int r = 0; r < rows_per_thread; ++r) {
      const int query = first_query + r;
      if (query >= extents.length || key >= extents.length) continue;
      probabilities[std::int64_t{query} * extents.length + key] = narrowed<T>(rows.values[r]);
    }
  }
}

template <typename T>
__global__ void __launch_bounds__(threads_per_block)
    forward_kernel(ForwardOperands<T> operands, Extents extents, float scale) {
  using A = Arithmetic<T>;
  const std::int64_t head = blockIdx.x / extents.tiles();
  const int first = static_cast<int>(blockIdx.x % extents.tiles()) * attention_tile;
  const ForwardMemory memory(extents.length, extents.size);
  A* shared = shared_memory<A>();

  const HeadRows<const T> keys = operands.heads.rows(key_part, extents, head);
  const HeadRows<const T> values = operands.heads.rows(value_part, extents, head);
  const TileValues<A> queries =
      fetch_tile(operands.heads.rows(query_part, extents, head), first, extents);
  const TileValues<A> first_keys = fetch_tile(keys, 0, extents);
  TileValues<A> tile = fetch_tile(values, 0, extents);
  put_left(shared + memory.queries, queries, extents);
  A largest[rows_per_thread];
#pragma unroll
  for (int r = 0; r < rows_per_thread; ++r) largest[r] = A(-INFINITY);
  make_scores(memory, keys, first_keys, extents, A(scale), first, largest);
  make_probabilities(memory, operands.probabilities + head * extents.length * extents.length,
                     extents, first, largest);

  TileSums<A> sums{};
  A* right = shared + memory.right;
  for (int first_key = 0; first_key <= first; first_key += attention_tile) {
    __syncthreads();
    put_right(right, tile, extents);
    __syncthreads();
    if (first_key < first) tile = fetch_tile(values, first_key + attention_tile, extents);
    add_product(sums, shared + memory.scores + first_key * left_stride, right, extents.size);
  }
  store(rows_side_by_side(operands.merged, 0, 1, extents, head), sums, first, extents);
}

template <typename T>
struct BackwardOperands {
  HeadParts<T> grads;
  const T* grad_merged;
  const T* merged;
  HeadParts<const T> heads;
  const T* probabilities;
};

/// The operands of one head.
template <typename T>
struct BackwardHead {
  HeadRows<const T> grad_merged;
  HeadRows<const T> merged;
  HeadRows<const T> query;
  HeadRows<const T> key;
  HeadRows<const T> value;
  const T* probabilities;
  Extents extents;

  __device__ Arithmetic<T> probability(int query_row, int key_row) const {
    const bool seen = query_row < extents.length && key_row <= query_row;
    return seen ? widened(probabilities[std::int64_t{query_row} * extents.length + key_row])
                : Arithmetic<T>(0);
  }
};

/// For each query of a tile the sum over the keys of probability times its gradient, which is that
/// over the columns of what the query attended to times its gradient.
template <typename A>
__device__ void put_dots(A* dots, const TileValues<A>& grad_merged, const TileValues<A>& merged) {
  A sums[rows_per_thread] = {};
#pragma unroll
  for (int i = 0; i < rows_per_thread; ++i) {
#pragma unroll
    for (int j = 0; j < attention_columns; ++j) {
      sums[i] += grad_merged.values[i][j] * merged.values[i][j];
    }
    sums[i] = warp_reduce(sums[i], Plus{});
  }
#pragma unroll
  for (int i = 0; i < rows_per_thread; ++i) {
    if (lane() == 0) dots[warp() + i * warps_per_block] = sums[i];
  }
}

/// A thread's probabilities of a tile of queries for a tile of keys.
template <typename A>
struct TileProbabilities {
  A values[rows_per_thread];
};

template <typename T>
__device__ TileProbabilities<Arithmetic<T>> fetch_probabilities(const BackwardHead<T>& head,
                                                                int first_query, int first_key) {
  TileProbabilities<Arithmetic<T>> tile;
#pragma unroll
  for (int i = 0; i < rows_per_thread; ++i) {
    const int row = warp() + i * warps_per_block;
    tile.values[i] = head.probability(first_query + row, first_key + lane());
  }
  return tile;
}

/// As the left operand of sums over queries.
template <typename A>
__device__ void put_probabilities(A* shared, const TileProbabilities<A>& tile) {
#pragma unroll
  for (int i = 0; i < rows_per_thread; ++i) {
    shared[(warp() + i * warps_per_block) * left_stride + lane()] = tile.values[i];
  }
}

/// Gradients of a tile of queries or, for `of_keys`, of keys and values: the rows of the tile are
/// "own", and the sums run over tiles of "others". `slope` is the gradient of an unscaled score.
template <bool of_keys, typename T>
__device__ void make_gradients(const BackwardHead<T>& head, Arithmetic<T> scale, int first_own,
                               const HeadRows<T>& grads, const HeadRows<T>& grads_of_value) {
  using A = Arithmetic<T>;
  const Extents& extents = head.extents;
  const BackwardMemory memory(extents.size);
  A* shared = shared_memory<A>();
  A* own = shared + memory.own;
  A* probabilities = shared + memory.probabilities;
  A* slopes = shared + memory.slopes;
  A* first_right = shared + memory.first;
  A* second_right = shared + memory.second;
  A* dots = shared + memory.dots;

  const HeadRows<const T>& rows_of_own = of_keys ? head.value : head.grad_merged;
  const TileValues<A> fetched_own = fetch_tile(rows_of_own, first_own, extents);
  put_left(own, fetched_own, extents);
  if (!of_keys) put_dots(dots, fetched_own, fetch_tile(head.merged, first_own, extents));
  TileSums<A> sums{};
  TileSums<A> value_sums{};
  const int end = of_keys ? extents.length : first_own + 1;
  for (int first = of_keys ? first_own : 0; first < end; first += attention_tile) {
    const TileValues<A> first_fetched =
        fetch_tile(of_keys ? head.grad_merged : head.value, first, extents);
    const TileValues<A> second_fetched =
        fetch_tile(of_keys ? head.query : head.key, first, extents);
    TileValues<A> merged{};
    TileProbabilities<A> fetched_probabilities{};
    if (of_keys) {
      merged = fetch_tile(head.merged, first, extents);
      fetched_probabilities = fetch_probabilities(head, first, first_own);
    }
    __syncthreads();
    if (of_keys) {
      put_probabilities(probabilities, fetched_probabilities);
      put_dots(dots, first_fetched, merged);
    }
    put_right(first_right, first_fetched, extents);
    put_right(second_right, second_fetched, extents);
    __syncthreads();
    A grad_probabilities[rows_per_thread] = {};
    multiply(grad_probabilities, own + thread_row(),
             first_right + lane() * right_stride(extents.size), 1, extents.size);
    ThreadRows<A> made;
#pragma unroll
    for (int r = 0; r < rows_per_thread; ++r) {
      const int own_row = first_own + thread_row() + r;
      const int query = of_keys ? first + lane() : own_row;
      const int key = of_keys ? own_row : first + lane();
      const A probability = of_keys ? probabilities[lane() * left_stride + thread_row() + r]
                                    : head.probability(query, key);
      const A dot = dots[of_keys ? lane() : thread_row() + r];
      const bool seen = query < extents.length && key <= query;
      made.values[r] = seen ? scale * probability * (grad_probabilities[r] - dot) : A(0);
    }
    thread_rows(slopes + lane() * left_stride + thread_row()) = made;
    __syncthreads();
    add_product(sums, slopes, second_right, extents.size);
    if (of_keys) add_product(value_sums, probabilities, first_right, extents.size);
  }
  store(grads, sums, first_own, extents);
  if (of_keys) store(grads_of_value, value_sums, first_own, extents);
}

template <typename T>
__global__ void __launch_bounds__(threads_per_block)
    backward_kernel(BackwardOperands<T> operands, Extents extents, float scale) {
  const unsigned tile = blockIdx.x / 2;
  const std::int64_t index = tile / extents.tiles();
  const int first = static_cast<int>(tile % extents.tiles()) * attention_tile;
  const BackwardHead<T> head{rows_side_by_side(operands.grad_merged, 0, 1, extents, index),
                             rows_side_by_side(operands.merged, 0, 1, extents, index),
                             operands.heads.rows(query_part, extents, index),
                             operands.heads.rows(key_part, extents, index),
                             operands.heads.rows(value_part, extents, index),
                             operands.probabilities + index * extents.length * extents.length,
                             extents};
  const HeadRows<T> grad_query = operands.grads.rows(query_part, extents, index);
  const HeadRows<T> grad_key = operands.grads.rows(key_part, extents, index);
  const HeadRows<T> grad_value = operands.grads.rows(value_part, extents, index);
  if (blockIdx.x % 2 == 0) {
    make_gradients<true>(head, Arithmetic<T>(scale), first, grad_key, grad_value);
  } else {
    make_gradients<false>(head, Arithmetic<T>(scale), first, grad_query, grad_value);
  }
}

/// What the operands that are the probabilities and merged say.
Extents extents_of(const OpCall& call, std::size_t probabilities, std::size_t merged) {
  const int heads = call.params.as<FusedAttentionParams>().heads;
  return {heads, static_cast<int>(extent(call, probabilities, 1)),
          static_cast<int>(extent(call, merged, 1)) / heads};
}

template <typename T>
void fused_attention_forward_of(const OpCall& call, const LaunchContext& context) {
  const Extents extents = extents_of(call, 0, 1);
  const std::int64_t blocks = extent(call, 0, 0) * extents.tiles();
  if (blocks == 0) return;
  const ForwardOperands<T> operands{elements<T>(call, 0), elements<T>(call, 1),
                                    parts_of<const T>(call, 2, 3)};
  const std::size_t bytes = static_cast<std::size_t>(
      ForwardMemory(extents.length, extents.size).end * sizeof(Arithmetic<T>));
  forward_kernel<<<static_cast<unsigned>(blocks), threads_per_block, bytes, context.stream>>>(
      operands, extents, call.params.as<FusedAttentionParams>().scale);
}

template <typename T>
void fused_attention_backward_of(const OpCall& call, const LaunchContext& context) {
  const Extents extents = extents_of(call, 3, 2);
  const std::int64_t blocks = 2 * extent(call, 3, 0) * extents.tiles();
  if (blocks == 0) return;
  const BackwardOperands<T> operands{parts_of<T>(call, 0, 7), elements<T>(call, 1),
                                     elements<T>(call, 2), parts_of<const T>(call, 4, 5),
                                     elements<T>(call, 3)};
  const std::size_t bytes =
      static_cast<std::size_t>(BackwardMemory(extents.size).end * sizeof(Arithmetic<T>));
  backward_kernel<<<static_cast<unsigned>(blocks), threads_per_block, bytes, context.stream>>>(
      operands, extents, call.params.as<FusedAttentionParams>().scale);
}

}  // namespace

void fused_attention_forward(const OpCall& call, const LaunchContext& context) {
  launch_typed(call, context, 0, CGCONFORM_FLOATING_KERNELS(fused_attention_forward_of));
}

void fused_attention_backward(const OpCall& call, const LaunchContext& context) {
  launch_typed(call, context, 0, CGCONFORM_FLOATING_KERNELS(fused_attention_backward_of));
}

}  // namespace cgconform::workloads::cuda

#include <cmath>
#include <type_traits>

#include "workloads/ops/cuda/fused_attention_memory.hpp"
#include "workloads/ops/cuda/kernels.hpp"
#include "workloads/ops/cuda/packs.cuh"
#include "workloads/ops/fused_attention.hpp"

/// A block makes a few rows of one head's results: of queries or, in the backward, also of keys,
/// whose sums run over the queries. Every sum is that of one thread, which adds in ascending order.
/// Heads are small, so that latency is what costs: blocks are small and many, and what a block
/// needs next is under way while it computes.
namespace cgconform::workloads::cuda {

namespace {

static_assert(attention_tile == warp_size, "a lane is a column of a tile");
constexpr int rows_per_thread = 4;
constexpr int warps_per_block = attention_rows / rows_per_thread;
constexpr int attention_threads = warps_per_block * warp_size;
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

struct Extents {
  int heads;  ///< of each sequence
  int length;
  int size;

  __host__ __device__ int tiles() const { return (length + attention_tile - 1) / attention_tile; }
  /// Blocks that make a head's rows.
  __host__ __device__ int blocks() const { return (length + attention_rows - 1) / attention_rows; }
};

/// Where the tile ends that a row is in.
__device__ int tile_end(int row) {
  return (row / attention_tile + 1) * attention_tile;
}

__device__ int warp() {
  return static_cast<int>(threadIdx.x / warp_size);
}
__device__ int lane() {
  return static_cast<int>(threadIdx.x % warp_size);
}
/// The first of this thread's rows among its block's.
__device__ int thread_row() {
  return warp() * rows_per_thread;
}

/// Rows of one head among those of all heads: `stride` elements from one to the next. Within a
/// sequence, which is short, 32 bits are enough, and they save registers.
template <typename T>
struct HeadRows {
  T* first;
  int stride;
  bool packed;  ///< rows begin at packs and are whole ones
};

/// How far it is, in elements, from one sequence, head and row to the next.
struct Strides {
  std::int64_t sequence;
  int head;
  int row;

  /// Where the block's head begins; a grid is [sequences, heads, blocks of rows], so that no block
  /// divides.
  __device__ std::int64_t offset() const {
    return std::int64_t{blockIdx.x} * sequence + static_cast<int>(blockIdx.y) * head;
  }
};

/// Of [sequences * heads, length, columns].
Strides heads_apart(const Extents& extents, int columns) {
  const int head = extents.length * columns;
  return {std::int64_t{extents.heads} * head, head, columns};
}
/// Of [sequences * length, parts * heads * size].
Strides heads_side_by_side(const Extents& extents, int parts) {
  const int row = parts * extents.heads * extents.size;
  return {std::int64_t{extents.length} * row, extents.size, row};
}

/// A tensor of all heads; `packed` as in HeadRows.
template <typename T>
struct HeadTensor {
  T* data;
  Strides strides;
  bool packed;

  __device__ HeadRows<T> rows() const { return {data + strides.offset(), strides.row, packed}; }
};

/// Queries, keys and values, or their gradients.
template <typename T>
struct HeadParts {
  T* data[3];
  Strides strides;
  bool packed;

  /// The rows of part 0, 1 or 2 of the block's head.
  __device__ HeadRows<T> rows(int part) const {
    return {data[part] + strides.offset(), strides.row, packed};
  }
};
constexpr int query_part = 0;
constexpr int key_part = 1;
constexpr int value_part = 2;

/// Queries in operand `first`, keys and values in those from `others` on, each [sequences * heads,
/// length, size]; or, side by side, all in the first, and the others are null.
template <typename T>
HeadParts<T> parts_of(const OpCall& call, std::size_t first, std::size_t others,
                      const Extents& extents) {
  using Element = std::remove_const_t<T>;
  HeadParts<T> parts{{elements<Element>(call, first), elements<Element>(call, others),
                      elements<Element>(call, others + 1)},
                     heads_apart(extents, extents.size),
                     false};
  if (parts.data[1] == nullptr) {
    const int apart = extents.heads * extents.size;
    parts.data[1] = parts.data[0] + apart;
    parts.data[2] = parts.data[1] + apart;
    parts.strides = heads_side_by_side(extents, 3);
  }
  parts.packed = extents.size % pack_size<Element> == 0 &&
                 on_pack_borders(parts.data[0], parts.data[1], parts.data[2]);
  return parts;
}

/// A tensor [sequences * length, heads * size].
template <typename T>
HeadTensor<T> merged_heads(const OpCall& call, std::size_t index, const Extents& extents) {
  using Element = std::remove_const_t<T>;
  Element* data = elements<Element>(call, index);
  const bool packed = extents.size % pack_size<Element> == 0 && on_pack_borders(data);
  return {data, heads_side_by_side(extents, 1), packed};
}

template <typename A>
__device__ A* shared_memory() {
  extern __shared__ double2 memory[];
  return reinterpret_cast<A*>(memory);
}

/// A thread's packs of `Rows` rows, of up to `Count` tiles of columns, on their way from global to
/// shared memory. All of a phase is fetched before any of it is put, so that it takes the latency
/// of one access.
template <typename T, int Rows, int Count>
struct FetchedRows {
  static constexpr int lanes_a_row = Count * attention_tile / pack_size<T>;
  static constexpr int rows_at_once = attention_threads / lanes_a_row;
  static constexpr int count = Rows < rows_at_once ? 1 : Rows / rows_at_once;
  Pack<T> packs[count];

  static __device__ int column() {
    return static_cast<int>(threadIdx.x % lanes_a_row) * pack_size<T>;
  }
  /// That of pack i; threads may be more than there are rows.
  static __device__ int row(int i) {
    return static_cast<int>(threadIdx.x / lanes_a_row) + i * rows_at_once;
  }
};

/// The rows from `first` on; those from `end` on, and columns beyond the size, are 0.
template <int Rows, int Count, typename T>
__device__ FetchedRows<T, Rows, Count> fetch_rows(const HeadRows<const T>& rows, int first, int end,
                                                  int size) {
  using Fetched = FetchedRows<T, Rows, Count>;
  const int column = Fetched::column();
  const T* source = rows.first + (first + Fetched::row(0)) * rows.stride + column;
  Fetched fetched{};
  const auto exists = [&](int i) {
    const int row = Fetched::row(i);
    return (Fetched::rows_at_once <= Rows || row < Rows) && first + row < end && column < size;
  };
  // Asked once, not for each pack, which would cost a branch.
  if (rows.packed) {
#pragma unroll
    for (int i = 0; i < Fetched::count; ++i) {
      const T* from = source + i * Fetched::rows_at_once * rows.stride;
      if (exists(i)) fetched.packs[i] = *reinterpret_cast<const Pack<T>*>(from);
    }
  } else {
#pragma unroll
    for (int i = 0; i < Fetched::count; ++i) {
      const T* from = source + i * Fetched::rows_at_once * rows.stride;
      for_each_lane<T>({0, exists(i) ? size - column : 0},
                       [&](int lane) { fetched.packs[i].values[lane] = from[lane]; });
    }
  }
  return fetched;
}

/// Element (row, column) goes to shared[row * row_step + column * column_step]. Whole packs are put
/// without asking for each element, which would cost a branch.
template <typename T, int Rows, int Count>
__device__ void put_rows(Arithmetic<T>* shared, int row_step, int column_step,
                         const FetchedRows<T, Rows, Count>& fetched, int size) {
  using Fetched = FetchedRows<T, Rows, Count>;
  if (Fetched::rows_at_once > Rows && Fetched::row(0) >= Rows) return;
  const int columns = size - Fetched::column();
  Arithmetic<T>* to = shared + Fetched::row(0) * row_step + Fetched::column() * column_step;
  const auto put = [&](int i, int lane) {
    to[i * Fetched::rows_at_once * row_step + lane * column_step] =
        widened(fetched.packs[i].values[lane]);
  };
  if (columns >= pack_size<T>) {
#pragma unroll
    for (int i = 0; i < Fetched::count; ++i) {
#pragma unroll
      for (int lane = 0; lane < pack_size<T>; ++lane) put(i, lane);
    }
  } else if (columns > 0) {
#pragma unroll
    for (int i = 0; i < Fetched::count; ++i) {
      for_each_lane<T>({0, columns}, [&](int lane) { put(i, lane); });
    }
  }
}

template <typename T, int Count>
__device__ void put_left(Arithmetic<T>* shared,
                         const FetchedRows<T, attention_rows, Count>& fetched, int size) {
  put_rows(shared, 1, left_stride, fetched, size);
}
template <typename T, int Rows, int Count>
__device__ void put_right(Arithmetic<T>* shared, const FetchedRows<T, Rows, Count>& fetched,
                          int size) {
  put_rows(shared, right_stride(size), 1, fetched, size);
}

/// Sums of a thread's rows with each of `Count` columns of a right operand.
template <typename A, int Count>
struct ThreadSums {
  A values[Count][rows_per_thread];
};

/// Where the columns begin that a thread multiplies with.
template <int Count>
struct Columns {
  int offsets[Count];
};

/// `Steps` steps of `multiply`. All operands are read before any is used, so that their latencies
/// overlap.
template <int Steps, typename A, int Count>
__device__ void multiply_steps(ThreadSums<A, Count>& sums, const A* left, const A* right,
                               const Columns<Count>& columns, int step) {
  ThreadRows<A> rows[Steps];
  A factors[Steps][Count];
#pragma unroll
  for (int i = 0; i < Steps; ++i) {
    rows[i] = thread_rows(left + i * left_stride);
#pragma unroll
    for (int c = 0; c < Count; ++c) factors[i][c] = right[columns.offsets[c] + i * step];
  }
#pragma unroll
  for (int i = 0; i < Steps; ++i) {
#pragma unroll
    for (int c = 0; c < Count; ++c) {
#pragma unroll
      for (int r = 0; r < rows_per_thread; ++r) {
        sums.values[c][r] += rows[i].values[r] * factors[i][c];
      }
    }
  }
}

/// sums[c][r] += sum over i < count of left[i * left_stride + r] * right[columns[c] + i * step]
template <typename A, int Count>
__device__ void multiply(ThreadSums<A, Count>& sums, const A* left, const A* right,
                         const Columns<Count>& columns, int step, int count) {
  constexpr int steps = 32 / static_cast<int>(sizeof(A));
  int i = 0;
#pragma unroll 4
  for (; i + steps <= count; i += steps) {
    multiply_steps<steps>(sums, left + i * left_stride, right + i * step, columns, step);
  }
#pragma unroll 1
  for (; i < count; ++i) {
    multiply_steps<1>(sums, left + i * left_stride, right + i * step, columns, step);
  }
}

/// Adds the product of a left operand of `count` columns and a right operand of as many rows.
template <typename A, int Count>
__device__ void add_product(ThreadSums<A, Count>& sums, const A* left, const A* right, int size,
                            int count) {
  Columns<Count> columns;
#pragma unroll
  for (int c = 0; c < Count; ++c) {
    const int column = c * attention_tile + lane();
    // Lanes beyond the last column repeat it, and store nothing.
    columns.offsets[c] = column < size ? column : size - 1;
  }
  multiply(sums, left + thread_row(), right, columns, right_stride(size), count);
}

template <typename T, int Count>
__device__ void store(const HeadRows<T>& rows, const ThreadSums<Arithmetic<T>, Count>& sums,
                      int first, const Extents& extents) {
  const int first_row = first + thread_row();
  T* to = rows.first + first_row * rows.stride + lane();
#pragma unroll
  for (int c = 0; c < Count; ++c) {
    const int column = c * attention_tile + lane();
    const int exist = column < extents.size ? extents.length - first_row : 0;
#pragma unroll
    for (int r = 0; r < rows_per_thread; ++r) {
      if (r < exist) to[r * rows.stride + c * attention_tile] = narrowed<T>(sums.values[c][r]);
    }
  }
}

/// Combines the values of so many neighbouring lanes in a fixed tree. Each of them gets the result.
template <int Lanes, typename A, typename Combine>
__device__ A lanes_reduce(A value, Combine combine) {
#pragma unroll
  for (int distance = Lanes / 2; distance > 0; distance /= 2) {
    value = combine(value, __shfl_xor_sync(0xFFFFFFFFU, value, distance));
  }
  return value;
}

template <typename T>
struct ForwardOperands {
  HeadTensor<T> probabilities;
  HeadTensor<T> merged;
  HeadParts<const T> heads;
};

/// The queries of a block: its rows from `first` on. `end` is that of the last tile of keys that
/// any of them sees.
struct Queries {
  int first;
  int end;
};

/// Scaled scores of a thread's rows for the keys of the chunk from `first_key` on, stored as a left
/// operand; -inf where a key is not seen. A thread keeps the largest of those that it makes.
template <typename A>
__device__ void make_scores_of_chunk(const ForwardMemory& memory, const Extents& extents, A scale,
                                     const Queries& queries, int first_key,
                                     A (&largest)[rows_per_thread]) {
  constexpr int tiles = attention_chunk / attention_tile;
  A* shared = shared_memory<A>();
  const int stride = right_stride(extents.size);
  Columns<tiles> keys;
#pragma unroll
  for (int tile = 0; tile < tiles; ++tile) {
    keys.offsets[tile] = (tile * attention_tile + lane()) * stride;
  }
  ThreadSums<A, tiles> sums{};
  multiply(sums, shared + memory.queries + thread_row(), shared + memory.right, keys, 1,
           extents.size);
#pragma unroll
  for (int tile = 0; tile < tiles; ++tile) {
    const int key = first_key + tile * attention_tile + lane();
    if (key >= queries.end) continue;
    ThreadRows<A> scores;
#pragma unroll
    for (int r = 0; r < rows_per_thread; ++r) {
      const bool seen = key <= queries.first + thread_row() + r;
      scores.values[r] = seen ? sums.values[tile][r] * scale : A(-INFINITY);
      largest[r] = larger(largest[r], scores.values[r]);
    }
    thread_rows(shared + memory.scores + key * left_stride + thread_row()) = scores;
  }
}

/// The scores of a block's queries become probabilities, in place and, rounded, in the operand.
/// Each thread works on the scores that it made.
template <typename T, typename A>
__device__ void make_probabilities(const ForwardMemory& memory, const HeadRows<T>& probabilities,
                                   const Extents& extents, const Queries& queries,
                                   A (&largest)[rows_per_thread]) {
  A* scores = shared_memory<A>() + memory.scores + thread_row();
  const int first_query = queries.first + thread_row();
  A sums[rows_per_thread] = {};
#pragma unroll
  for (int r = 0; r < rows_per_thread; ++r) {
    largest[r] = lanes_reduce<warp_size>(largest[r], Larger{});
  }
#pragma unroll 1
  for (int key = lane(); key < queries.end; key += attention_tile) {
    ThreadRows<A> rows = thread_rows(scores + key * left_stride);
#pragma unroll
    for (int r = 0; r < rows_per_thread; ++r) {
      // Not only where the key is seen: rows would take a branch each.
      const A power = exp(rows.values[r] - largest[r]);
      rows.values[r] = key <= first_query + r ? power : A(0);
      sums[r] += rows.values[r];
    }
    thread_rows(scores + key * left_stride) = rows;
  }
#pragma unroll
  for (int r = 0; r < rows_per_thread; ++r) sums[r] = lanes_reduce<warp_size>(sums[r], Plus{});
#pragma unroll 1
  for (int key = lane(); key < extents.tiles() * attention_tile; key += attention_tile) {
    ThreadRows<A> rows{};
    if (key < queries.end) {
      rows = thread_rows(scores + key * left_stride);
#pragma unroll
      for (int r = 0; r < rows_per_thread; ++r) rows.values[r] /= sums[r];
      thread_rows(scores + key * left_stride) = rows;
    }
    T* to = probabilities.first + first_query * probabilities.stride + key;
    const int exist = key < extents.length ? extents.length - first_query : 0;
#pragma unroll
    for (int r = 0; r < rows_per_thread; ++r) {
      if (r < exist) to[r * probabilities.stride] = narrowed<T>(rows.values[r]);
    }
  }
}

/// Puts the chunks of a right operand's rows [0, queries.end), of which `chunk` is the first, one
/// after the other, and calls body(first row) with each.
template <int Count, typename T, typename Body>
__device__ void for_each_chunk(const ForwardMemory& memory, const HeadRows<const T>& rows,
                               FetchedRows<T, attention_chunk, Count> chunk, const Extents& extents,
                               const Queries& queries, Body body) {
  for (int first = 0; first < queries.end; first += attention_chunk) {
    __syncthreads();
    put_right(shared_memory<Arithmetic<T>>() + memory.right, chunk, extents.size);
    __syncthreads();
    const int next = first + attention_chunk;
    if (next < queries.end) {
      chunk = fetch_rows<attention_chunk, Count>(rows, next, min(extents.length, queries.end),
                                                 extents.size);
    }
    body(first);
  }
}

template <typename T, int Count>
__global__ void __launch_bounds__(attention_threads)
    forward_kernel(ForwardOperands<T> operands, Extents extents, float scale) {
  using A = Arithmetic<T>;
  // Later queries see more keys; their blocks come first.
  const int first = static_cast<int>(gridDim.z - 1 - blockIdx.z) * attention_rows;
  const Queries queries{first, tile_end(first)};
  const ForwardMemory memory(extents.length, extents.size);
  A* shared = shared_memory<A>();

  const HeadRows<const T> keys = operands.heads.rows(key_part);
  const HeadRows<const T> values = operands.heads.rows(value_part);
  const int end = min(extents.length, queries.end);
  const auto fetched_queries =
      fetch_rows<attention_rows, Count>(operands.heads.rows(query_part), first, end, extents.size);
  const auto first_keys = fetch_rows<attention_chunk, Count>(keys, 0, end, extents.size);
  const auto first_values = fetch_rows<attention_chunk, Count>(values, 0, end, extents.size);
  put_left(shared + memory.queries, fetched_queries, extents.size);
  A largest[rows_per_thread];
#pragma unroll
  for (int r = 0; r < rows_per_thread; ++r) largest[r] = A(-INFINITY);
  for_each_chunk<Count>(memory, keys, first_keys, extents, queries, [&](int first_key) {
    make_scores_of_chunk(memory, extents, A(scale), queries, first_key, largest);
  });
  make_probabilities(memory, operands.probabilities.rows(), extents, queries, largest);

  ThreadSums<A, Count> sums{};
  for_each_chunk<Count>(memory, values, first_values, extents, queries, [&](int first_key) {
    add_product(sums, shared + memory.scores + first_key * left_stride, shared + memory.right,
                extents.size, min(attention_chunk, queries.end - first_key));
  });
  store(operands.merged.rows(), sums, first, extents);
}

template <typename T>
struct BackwardOperands {
  HeadParts<T> grads;
  HeadTensor<const T> grad_merged;
  HeadTensor<const T> merged;
  HeadParts<const T> heads;
  HeadTensor<const T> probabilities;
};

/// The operands of one head.
template <typename T>
struct BackwardHead {
  HeadRows<const T> grad_merged;
  HeadRows<const T> merged;
  HeadRows<const T> query;
  HeadRows<const T> key;
  HeadRows<const T> value;
  HeadRows<const T> probabilities;
  Extents extents;

  __device__ T probability(int query_row, int key_row) const {
    const bool seen = query_row < extents.length && key_row <= query_row;
    return seen ? probabilities.first[query_row * probabilities.stride + key_row] : T(0.0F);
  }
};

/// For each of some queries the sum over the keys of probability times its gradient, which is that
/// over the columns of what the query attended to times its gradient.
template <typename T, int Rows, int Count>
__device__ void put_dots(Arithmetic<T>* dots, const FetchedRows<T, Rows, Count>& grad_merged,
                         const FetchedRows<T, Rows, Count>& merged) {
  using Fetched = FetchedRows<T, Rows, Count>;
  Arithmetic<T> sums[Fetched::count] = {};
#pragma unroll
  for (int i = 0; i < Fetched::count; ++i) {
    for_each_lane<T>({0, pack_size<T>}, [&](int lane) {
      sums[i] += widened(grad_merged.packs[i].values[lane]) * widened(merged.packs[i].values[lane]);
    });
    sums[i] = lanes_reduce<Fetched::lanes_a_row>(sums[i], Plus{});
  }
#pragma unroll
  for (int i = 0; i < Fetched::count; ++i) {
    if (Fetched::column() == 0 && Fetched::row(i) < Rows) dots[Fetched::row(i)] = sums[i];
  }
}

/// Which of a tile's queries and of a block's keys the i-th probability is, of those that a thread
/// fetches for sums over queries.
struct ProbabilityPlace {
  int query;
  int key;

  __device__ explicit ProbabilityPlace(int i)
      : query(static_cast<int>(threadIdx.x) / attention_rows +
              i * (attention_threads / attention_rows)),
        key(static_cast<int>(threadIdx.x) % attention_rows) {}
};
static_assert(attention_tile * attention_rows == rows_per_thread * attention_threads);

/// A thread's part of what a step of the backward works on.
template <typename T, int Count>
struct FetchedStep {
  FetchedRows<T, attention_tile, Count> first;
  FetchedRows<T, attention_tile, Count> second;
  FetchedRows<T, attention_tile, Count> merged;  ///< for sums over queries
  T probabilities[rows_per_thread];
};

template <bool of_keys, int Count, typename T>
__device__ FetchedStep<T, Count> fetch_step(const BackwardHead<T>& head, int first_own, int first) {
  const int end = head.extents.length;
  const int size = head.extents.size;
  FetchedStep<T, Count> step;
  step.first =
      fetch_rows<attention_tile, Count>(of_keys ? head.grad_merged : head.value, first, end, size);
  step.second =
      fetch_rows<attention_tile, Count>(of_keys ? head.query : head.key, first, end, size);
  if constexpr (of_keys) {
    step.merged = fetch_rows<attention_tile, Count>(head.merged, first, end, size);
  }
#pragma unroll
  for (int i = 0; i < rows_per_thread; ++i) {
    const ProbabilityPlace place(i);
    step.probabilities[i] = of_keys
                                ? head.probability(first + place.query, first_own + place.key)
                                : head.probability(first_own + thread_row() + i, first + lane());
  }
  return step;
}

/// Puts what sums of keys and values need of a step besides its rows.
template <typename T, int Count>
__device__ void put_step_of_queries(const BackwardMemory& memory,
                                    const FetchedStep<T, Count>& step) {
  Arithmetic<T>* shared = shared_memory<Arithmetic<T>>();
#pragma unroll
  for (int i = 0; i < rows_per_thread; ++i) {
    const ProbabilityPlace place(i);
    shared[memory.probabilities + place.query * left_stride + place.key] =
        widened(step.probabilities[i]);
  }
  put_dots(shared + memory.dots, step.first, step.merged);
}

/// Gradients of a block's queries or, for `of_keys`, of its keys and values: the rows of the block
/// are "own", and the sums run over tiles of "others". `slope` is the gradient of an unscaled
/// score.
template <bool of_keys, int Count, typename T>
__device__ void make_gradients(const BackwardHead<T>& head, Arithmetic<T> scale, int first_own,
                               const HeadRows<T>& grads, const HeadRows<T>& grads_of_value) {
  using A = Arithmetic<T>;
  const Extents& extents = head.extents;
  const BackwardMemory memory(extents.size);
  A* shared = shared_memory<A>();
  A* probabilities = shared + memory.probabilities;
  A* slopes = shared + memory.slopes;
  A* first_right = shared + memory.first;
  A* second_right = shared + memory.second;
  A* dots = shared + memory.dots;

  int first = of_keys ? first_own / attention_tile * attention_tile : 0;
  const int end = of_keys ? extents.length : first_own + 1;
  const auto own = fetch_rows<attention_rows, Count>(of_keys ? head.value : head.grad_merged,
                                                     first_own, extents.length, extents.size);
  FetchedRows<T, attention_rows, Count> merged_of_own;
  if constexpr (!of_keys) {
    merged_of_own =
        fetch_rows<attention_rows, Count>(head.merged, first_own, extents.length, extents.size);
  }
  FetchedStep<T, Count> next = fetch_step<of_keys, Count>(head, first_own, first);
  put_left(shared + memory.own, own, extents.size);
  if constexpr (!of_keys) put_dots(dots, own, merged_of_own);
  ThreadSums<A, Count> sums{};
  ThreadSums<A, Count> value_sums{};
  for (; first < end; first += attention_tile) {
    __syncthreads();
    ThreadRows<A> of_step;
#pragma unroll
    for (int i = 0; i < rows_per_thread; ++i) of_step.values[i] = widened(next.probabilities[i]);
    if constexpr (of_keys) put_step_of_queries(memory, next);
    put_right(first_right, next.first, extents.size);
    put_right(second_right, next.second, extents.size);
    __syncthreads();
    if (first + attention_tile < end) {
      next = fetch_step<of_keys, Count>(head, first_own, first + attention_tile);
    }
    if constexpr (of_keys) {
      of_step = thread_rows(probabilities + lane() * left_stride + thread_row());
    }
    ThreadSums<A, 1> grad_probabilities{};
    multiply(grad_probabilities, shared + memory.own + thread_row(), first_right,
             Columns<1>{{lane() * right_stride(extents.size)}}, 1, extents.size);
    ThreadRows<A> made;
#pragma unroll
    for (int r = 0; r < rows_per_thread; ++r) {
      const int own_row = first_own + thread_row() + r;
      const int query = of_keys ? first + lane() : own_row;
      const int key = of_keys ? own_row : first + lane();
      const A dot = dots[of_keys ? lane() : thread_row() + r];
      const A slope = scale * of_step.values[r] * (grad_probabilities.values[0][r] - dot);
      made.values[r] = query < extents.length && key <= query ? slope : A(0);
    }
    thread_rows(slopes + lane() * left_stride + thread_row()) = made;
    // A warp reads the slopes of its own rows only.
    __syncwarp();
    add_product(sums, slopes, second_right, extents.size, attention_tile);
    if constexpr (of_keys) {
      add_product(value_sums, probabilities, first_right, extents.size, attention_tile);
    }
  }
  store(grads, sums, first_own, extents);
  if constexpr (of_keys) store(grads_of_value, value_sums, first_own, extents);
}

template <typename T, int Count>
__global__ void __launch_bounds__(attention_threads)
    backward_kernel(BackwardOperands<T> operands, Extents extents, float scale) {
  const BackwardHead<T> head{operands.grad_merged.rows(),
                             operands.merged.rows(),
                             operands.heads.rows(query_part),
                             operands.heads.rows(key_part),
                             operands.heads.rows(value_part),
                             operands.probabilities.rows(),
                             extents};
  const HeadRows<T> grad_query = operands.grads.rows(query_part);
  const HeadRows<T> grad_key = operands.grads.rows(key_part);
  const HeadRows<T> grad_value = operands.grads.rows(value_part);
  // The longest sums come first: those of the first keys, and of the last queries.
  const int block = static_cast<int>(blockIdx.z);
  if (block < extents.blocks()) {
    make_gradients<true, Count>(head, Arithmetic<T>(scale), block * attention_rows, grad_key,
                                grad_value);
  } else {
    make_gradients<false, Count>(head, Arithmetic<T>(scale),
                                 (2 * extents.blocks() - 1 - block) * attention_rows, grad_query,
                                 grad_value);
  }
}

/// What the operands that are the probabilities and merged say.
Extents extents_of(const OpCall& call, std::size_t probabilities, std::size_t merged) {
  const int heads = call.params.as<FusedAttentionParams>().heads;
  return {heads, static_cast<int>(extent(call, probabilities, 1)),
          static_cast<int>(extent(call, merged, 1)) / heads};
}

/// For `sequences_and_heads` heads in all, each of which takes so many blocks.
dim3 attention_grid(std::int64_t sequences_and_heads, const Extents& extents, int blocks) {
  return {static_cast<unsigned>(sequences_and_heads / extents.heads),
          static_cast<unsigned>(extents.heads), static_cast<unsigned>(blocks)};
}

template <typename T>
void fused_attention_forward_of(const OpCall& call, const LaunchContext& context) {
  const Extents extents = extents_of(call, 0, 1);
  if (call.operand(1).elements() == 0) return;
  const dim3 grid = attention_grid(extent(call, 0, 0), extents, extents.blocks());
  const ForwardOperands<T> operands{
      {elements<T>(call, 0), heads_apart(extents, extents.length), false},
      merged_heads<T>(call, 1, extents),
      parts_of<const T>(call, 2, 3, extents)};
  const std::size_t bytes = static_cast<std::size_t>(
      ForwardMemory(extents.length, extents.size).end * sizeof(Arithmetic<T>));
  const float scale = call.params.as<FusedAttentionParams>().scale;
  const auto kernel = extents.size <= attention_tile ? forward_kernel<T, 1> : forward_kernel<T, 2>;
  kernel<<<grid, attention_threads, bytes, context.stream>>>(operands, extents, scale);
}

template <typename T>
void fused_attention_backward_of(const OpCall& call, const LaunchContext& context) {
  const Extents extents = extents_of(call, 3, 2);
  if (call.operand(2).elements() == 0) return;
  const dim3 grid = attention_grid(extent(call, 3, 0), extents, 2 * extents.blocks());
  const BackwardOperands<T> operands{
      parts_of<T>(call, 0, 7, extents),
      merged_heads<const T>(call, 1, extents),
      merged_heads<const T>(call, 2, extents),
      parts_of<const T>(call, 4, 5, extents),
      {elements<T>(call, 3), heads_apart(extents, extents.length), false}};
  const std::size_t bytes =
      static_cast<std::size_t>(BackwardMemory(extents.size).end * sizeof(Arithmetic<T>));
  const float scale = call.params.as<FusedAttentionParams>().scale;
  const auto kernel =
      extents.size <= attention_tile ? backward_kernel<T, 1> : backward_kernel<T, 2>;
  kernel<<<grid, attention_threads, bytes, context.stream>>>(operands, extents, scale);
}

}  // namespace

void fused_attention_forward(const OpCall& call, const LaunchContext& context) {
  launch_typed(call, context, 0, CGCONFORM_FLOATING_KERNELS(fused_attention_forward_of));
}

void fused_attention_backward(const OpCall& call, const LaunchContext& context) {
  launch_typed(call, context, 0, CGCONFORM_FLOATING_KERNELS(fused_attention_backward_of));
}

}  // namespace cgconform::workloads::cuda

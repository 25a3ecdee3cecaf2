#include "workloads/ops/cuda/gemm_engine.hpp"
#include "workloads/ops/cuda/kernels.hpp"
#include "workloads/ops/cuda/packs.cuh"
#include "workloads/ops/embedding_and_loss.hpp"

namespace cgconform::workloads::cuda {

namespace {

__device__ std::int64_t table_row(std::int32_t index, std::int64_t count) {
  return index >= 0 && index < count ? index : 0;
}

/// Number of rows that count; every thread of the block gets it.
template <typename A>
__device__ A counted_rows(const A* loss_mask, std::int64_t rows) {
  A count = 0;
  for (std::int64_t row = threadIdx.x; row < rows; row += blockDim.x) {
    if (loss_mask[row] != A(0)) count += A(1);
  }
  return block_sum(count);
}

template <typename T>
void embedding_forward_of(const OpCall& call, const LaunchContext& context) {
  const std::int64_t hidden = extent(call, 0, 1);
  const std::int64_t vocabulary = extent(call, 2, 0);
  const std::int64_t length = extent(call, 3, 0);
  T* output = elements<T>(call, 0);
  const auto* tokens = elements<std::int32_t>(call, 1);
  const T* token_table = elements<T>(call, 2);
  const T* position_table = elements<T>(call, 3);
  const bool packed =
      hidden % pack_size<T> == 0 && on_pack_borders(output, token_table, position_table);
  for_each_pack<T>(call.operand(0).elements(), packed, context, [=] __device__(const Lanes& lanes) {
    const std::int64_t row = lanes.first / hidden;
    const std::int64_t column = lanes.first % hidden;
    const std::int64_t token = table_row(tokens[row], vocabulary) * hidden + column;
    const std::int64_t position = row % length * hidden + column;
    Pack<T> sum = load(token_table, Lanes{token, lanes.count});
    const Pack<T> added = load(position_table, Lanes{position, lanes.count});
    for_each_lane<T>(lanes, [&](int lane) {
      sum.values[lane] = narrowed<T>(widened(sum.values[lane]) + widened(added.values[lane]));
    });
    store(output, lanes, sum);
  });
}

/// The operands of embedding_backward.
template <typename T>
struct EmbeddingGrads {
  Arithmetic<T>* tokens;     ///< [vocabulary, hidden]
  Arithmetic<T>* positions;  ///< [length, hidden]
  const std::int32_t* token_of_row;
  const T* grad_output;  ///< [rows, hidden]
  std::int64_t vocabulary;
  std::int64_t length;
  std::int64_t rows;
  std::int64_t hidden;
  bool packed;
};

/// Sums of the elements of a pack.
template <typename T>
struct alignas(16) PackSums {
  Arithmetic<T> values[pack_size<T>];
};

/// Adds to a row of sums, at `lanes`, the rows row_at(0), ..., row_at(count - 1) in this order.
/// Some rows are on their way from memory at a time.
template <typename T, typename RowAt>
__device__ void add_rows(Arithmetic<T>* row_of_sums, const Lanes& lanes, std::int64_t count,
                         const RowAt& row_at) {
  constexpr int rows_at_once = 4;
  const bool whole = lanes.count == pack_size<T>;
  Arithmetic<T>* sums = row_of_sums + lanes.first;
  PackSums<T> sum;
  if (whole) sum = *reinterpret_cast<const PackSums<T>*>(sums);
  if (!whole) for_each_lane<T>(lanes, [&](int lane) { sum.values[lane] = sums[lane]; });
  for (std::int64_t first = 0; first < count; first += rows_at_once) {
    Pack<T> rows[rows_at_once];
#pragma unroll
    for (int i = 0; i < rows_at_once; ++i) {
      if (first + i < count) rows[i] = load(row_at(first + i), lanes);
    }
#pragma unroll
    for (int i = 0; i < rows_at_once; ++i) {
      if (first + i >= count) continue;
      for_each_lane<T>(lanes, [&](int lane) { sum.values[lane] += widened(rows[i].values[lane]); });
    }
  }
  if (whole) *reinterpret_cast<PackSums<T>*>(sums) = sum;
  if (!whole) for_each_lane<T>(lanes, [&](int lane) { sums[lane] = sum.values[lane]; });
}

constexpr int tokens_a_thread = 4;
constexpr int rows_a_tile = tokens_a_thread * threads_per_block;
static_assert(rows_a_tile == warp_size * warp_size, "a lane counts the bits of a word");

/// Rows of a tile that have the block's token.
struct TileRows {
  unsigned words[warp_size];  ///< a bit for each row of the tile
  int rows[rows_a_tile];  ///< those that have the token, in ascending order, from the tile's first
};

/// Fills `found` from the rows from `tile` on and returns how many have the token. What the block
/// has read of `found` before, it may not need any more.
template <typename T>
__device__ int find_rows(const EmbeddingGrads<T>& grads, std::int64_t token, std::int64_t tile,
                         TileRows& found) {
  constexpr unsigned all_lanes = 0xFFFFFFFFU;
  const int lane = static_cast<int>(threadIdx.x) % warp_size;
  const int first_word = static_cast<int>(threadIdx.x) / warp_size;
  constexpr int words_apart = threads_per_block / warp_size;
  std::int32_t tokens[tokens_a_thread] = {};
#pragma unroll
  for (int i = 0; i < tokens_a_thread; ++i) {
    const std::int64_t row = tile + i * threads_per_block + threadIdx.x;
    if (row < grads.rows) tokens[i] = grads.token_of_row[row];
  }
  bool mine[tokens_a_thread];
  bool any = false;
#pragma unroll
  for (int i = 0; i < tokens_a_thread; ++i) {
    const std::int64_t row = tile + i * threads_per_block + threadIdx.x;
    mine[i] = row < grads.rows && table_row(tokens[i], grads.vocabulary) == token;
    any = any || mine[i];
  }
  if (__syncthreads_or(any ? 1 : 0) == 0) return 0;
#pragma unroll
  for (int i = 0; i < tokens_a_thread; ++i) {
    const unsigned word = __ballot_sync(all_lanes, mine[i]);
    if (lane == 0) found.words[first_word + i * words_apart] = word;
  }
  __syncthreads();
  const unsigned word = found.words[lane];
  int up_to = __popc(word);
  for (int distance = 1; distance < warp_size; distance *= 2) {
    const int below = __shfl_up_sync(all_lanes, up_to, distance);
    if (lane >= distance) up_to += below;
  }
#pragma unroll
  for (int i = 0; i < tokens_a_thread; ++i) {
    const int word_index = first_word + i * words_apart;
    const int before = __shfl_sync(all_lanes, up_to - __popc(word), word_index);
    const unsigned lower = __shfl_sync(all_lanes, word, word_index) & ((1U << lane) - 1);
    if (mine[i]) {
      found.rows[before + __popc(lower)] = i * threads_per_block + static_cast<int>(threadIdx.x);
    }
  }
  __syncthreads();
  return __shfl_sync(all_lanes, up_to, warp_size - 1);
}

/// Adds the rows of grad_output that have the block's token, in their order. Tokens are searched
/// tile by tile.
template <typename T>
__device__ void add_rows_of_token(const EmbeddingGrads<T>& grads, std::int64_t token) {
  __shared__ TileRows found;
  for (std::int64_t tile = 0; tile < grads.rows; tile += rows_a_tile) {
    const int count = find_rows(grads, token, tile, found);
    if (count == 0) continue;
    const T* first = grads.grad_output + tile * grads.hidden;
    for_each_in_row<T>(grads.hidden, grads.packed, [&](const Lanes& lanes) {
      add_rows<T>(grads.tokens + token * grads.hidden, lanes, count,
                  [&](std::int64_t i) { return first + found.rows[i] * grads.hidden; });
    });
  }
}

/// Adds those at the block's position, in their order.
template <typename T>
__device__ void add_rows_of_position(const EmbeddingGrads<T>& grads, std::int64_t position) {
  if (position >= grads.rows) return;
  const std::int64_t count = (grads.rows - position - 1) / grads.length + 1;
  for_each_in_row<T>(grads.hidden, grads.packed, [&](const Lanes& lanes) {
    add_rows<T>(grads.positions + position * grads.hidden, lanes, count, [&](std::int64_t i) {
      return grads.grad_output + (position + i * grads.length) * grads.hidden;
    });
  });
}

template <typename T>
void embedding_backward_of(const OpCall& call, const LaunchContext& context) {
  EmbeddingGrads<T> grads{.tokens = elements<Arithmetic<T>>(call, 0),
                          .positions = elements<Arithmetic<T>>(call, 1),
                          .token_of_row = elements<std::int32_t>(call, 2),
                          .grad_output = elements<T>(call, 3),
                          .vocabulary = extent(call, 0, 0),
                          .length = extent(call, 1, 0),
                          .rows = extent(call, 3, 0),
                          .hidden = extent(call, 3, 1),
                          .packed = false};
  grads.packed = grads.hidden % pack_size<T> == 0 &&
                 on_pack_borders(grads.tokens, grads.positions, grads.grad_output);
  // A block owns a row of a table and walks the rows in order, so the sum needs no atomics.
  for_each_row(grads.vocabulary + grads.length, context, [=] __device__(std::int64_t block) {
    if (block < grads.vocabulary) {
      add_rows_of_token(grads, block);
    } else {
      add_rows_of_position(grads, block - grads.vocabulary);
    }
  });
}

template <typename T>
void cross_entropy_forward_of(const OpCall& call, const LaunchContext& context) {
  using A = Arithmetic<T>;
  const std::int64_t rows = extent(call, 2, 0);
  const std::int64_t vocabulary = extent(call, 2, 1);
  A* loss = elements<A>(call, 0);
  A* probabilities = elements<A>(call, 1);
  const T* logits = elements<T>(call, 2);
  const auto* labels = elements<std::int32_t>(call, 3);
  const A* loss_mask = elements<A>(call, 4);
  A* row_losses = static_cast<A*>(
      context.gemm->scratch(rows * static_cast<std::int64_t>(sizeof(A)), context.stream));
  for_each_row(rows, context, [=] __device__(std::int64_t row) {
    const T* in = logits + row * vocabulary;
    A* out = probabilities + row * vocabulary;
    A largest = widened(in[0]);
    for (std::int64_t i = threadIdx.x; i < vocabulary; i += blockDim.x) {
      largest = larger(largest, widened(in[i]));
    }
    largest = block_max(largest);
    A sum = 0;
    for (std::int64_t i = threadIdx.x; i < vocabulary; i += blockDim.x) {
      out[i] = exp(widened(in[i]) - largest);
      sum += out[i];
    }
    sum = block_sum(sum);
    for (std::int64_t i = threadIdx.x; i < vocabulary; i += blockDim.x) out[i] /= sum;
    if (threadIdx.x == 0) {
      row_losses[row] = log(sum) + largest - widened(in[table_row(labels[row], vocabulary)]);
    }
  });
  for_each_row(1, context, [=] __device__(std::int64_t) {
    A total = 0;
    for (std::int64_t row = threadIdx.x; row < rows; row += blockDim.x) {
      // A row that does not count may hold anything, NaN included.
      if (loss_mask[row] != A(0)) total += loss_mask[row] * row_losses[row];
    }
    total = block_sum(total);
    const A count = counted_rows(loss_mask, rows);
    if (threadIdx.x == 0) *loss = count == A(0) ? A(0) : total / count;
  });
}

template <typename T>
void cross_entropy_backward_of(const OpCall& call, const LaunchContext& context) {
  using A = Arithmetic<T>;
  const A grad_scale = A(call.params.as<LossParams>().grad_scale);
  const std::int64_t rows = extent(call, 0, 0);
  const std::int64_t vocabulary = extent(call, 0, 1);
  T* grad_logits = elements<T>(call, 0);
  const A* probabilities = elements<A>(call, 1);
  const auto* labels = elements<std::int32_t>(call, 2);
  const A* loss_mask = elements<A>(call, 3);
  const A* loss_scale = elements<A>(call, 4);
  for_each_row(rows, context, [=] __device__(std::int64_t row) {
    const A count = counted_rows(loss_mask, rows);
    const A scale = loss_scale == nullptr ? grad_scale : grad_scale * *loss_scale;
    const A weight = loss_mask[row] == A(0) ? A(0) : scale * loss_mask[row] / count;
    const std::int64_t label = table_row(labels[row], vocabulary);
    for (std::int64_t i = threadIdx.x; i < vocabulary; i += blockDim.x) {
      const A target = i == label ? weight : A(0);
      const A grad = weight * probabilities[row * vocabulary + i] - target;
      // A row that does not count may hold anything, NaN included.
      grad_logits[row * vocabulary + i] = narrowed<T>(weight == A(0) ? A(0) : grad);
    }
  });
}

}  // namespace

void embedding_forward(const OpCall& call, const LaunchContext& context) {
  launch_typed(call, context, 0, CGCONFORM_FLOATING_KERNELS(embedding_forward_of));
}

void embedding_backward(const OpCall& call, const LaunchContext& context) {
  launch_typed(call, context, 3, CGCONFORM_FLOATING_KERNELS(embedding_backward_of));
}

void cross_entropy_forward(const OpCall& call, const LaunchContext& context) {
  launch_typed(call, context, 2, CGCONFORM_FLOATING_KERNELS(cross_entropy_forward_of));
}

void cross_entropy_backward(const OpCall& call, const LaunchContext& context) {
  launch_typed(call, context, 0, CGCONFORM_FLOATING_KERNELS(cross_entropy_backward_of));
}

}  // namespace cgconform::workloads::cuda

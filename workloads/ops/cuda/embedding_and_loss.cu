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

/// Adds the rows of grad_output whose token is the block's, in their order. Tokens are searched in
/// tiles of a block's threads.
template <typename T>
__device__ void add_rows_of_token(Arithmetic<T>* grad_tokens, const std::int32_t* tokens,
                                  const T* grad_output, std::int64_t token, std::int64_t vocabulary,
                                  std::int64_t rows, std::int64_t hidden) {
  __shared__ unsigned found[threads_per_block / warp_size];
  for (std::int64_t tile = 0; tile < rows; tile += threads_per_block) {
    const std::int64_t row = tile + threadIdx.x;
    const bool mine = row < rows && table_row(tokens[row], vocabulary) == token;
    const unsigned ballot = __ballot_sync(0xFFFFFFFFU, mine);
    if (threadIdx.x % warp_size == 0) found[threadIdx.x / warp_size] = ballot;
    if (__syncthreads_or(mine)) {
      for (int warp = 0; warp < threads_per_block / warp_size; ++warp) {
        for (unsigned left = found[warp]; left != 0; left &= left - 1) {
          const std::int64_t from = tile + warp * warp_size + __ffs(static_cast<int>(left)) - 1;
          for (std::int64_t i = threadIdx.x; i < hidden; i += blockDim.x) {
            grad_tokens[token * hidden + i] += widened(grad_output[from * hidden + i]);
          }
        }
      }
    }
    __syncthreads();
  }
}

template <typename T>
void embedding_backward_of(const OpCall& call, const LaunchContext& context) {
  using A = Arithmetic<T>;
  const std::int64_t rows = extent(call, 3, 0);
  const std::int64_t hidden = extent(call, 3, 1);
  const std::int64_t vocabulary = extent(call, 0, 0);
  const std::int64_t length = extent(call, 1, 0);
  A* grad_tokens = elements<A>(call, 0);
  A* grad_positions = elements<A>(call, 1);
  const auto* tokens = elements<std::int32_t>(call, 2);
  const T* grad_output = elements<T>(call, 3);
  // A block owns a row of the table and walks the rows in order, so the sum needs no atomics.
  for_each_row(vocabulary, context, [=] __device__(std::int64_t token) {
    add_rows_of_token<T>(grad_tokens, tokens, grad_output, token, vocabulary, rows, hidden);
  });
  for_each(length * hidden, context, [=] __device__(std::int64_t i) {
    for (std::int64_t row = i / hidden; row < rows; row += length) {
      grad_positions[i] += widened(grad_output[row * hidden + i % hidden]);
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

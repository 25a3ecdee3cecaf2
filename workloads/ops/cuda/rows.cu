#include "workloads/ops/attention.hpp"
#include "workloads/ops/cuda/kernels.hpp"
#include "workloads/ops/cuda/launch.cuh"
#include "workloads/ops/embedding_and_loss.hpp"
#include "workloads/ops/layer_norm.hpp"

namespace cgconform::workloads::cuda {

namespace {

__device__ std::int64_t table_row(std::int32_t index, std::int64_t count) {
  return index >= 0 && index < count ? index : 0;
}

/// Number of rows that count; every thread of the block gets it.
template <typename T>
__device__ T counted_rows(const T* loss_mask, std::int64_t rows) {
  T count = 0;
  for (std::int64_t row = threadIdx.x; row < rows; row += blockDim.x) {
    if (loss_mask[row] != T(0)) count += T(1);
  }
  return block_sum(count);
}

/// Index into rows of element `i` of a part's heads.
__device__ std::int64_t row_index(const HeadsParams& params, std::int64_t i) {
  const std::int64_t within = i % params.size;
  const std::int64_t position = i / params.size % params.length;
  const std::int64_t head = i / params.size / params.length % params.heads;
  const std::int64_t sequence = i / params.size / params.length / params.heads;
  const std::int64_t width = std::int64_t{params.heads} * params.size;
  return (sequence * params.length + position) * width * params.parts + width * params.part +
         head * params.size + within;
}

template <typename T>
void layer_norm_forward_of(const OpCall& call, const LaunchContext& context) {
  const T epsilon = T(call.params.as<LayerNormParams>().epsilon);
  const std::int64_t columns = extent(call, 3, 1);
  T* output = elements<T>(call, 0);
  T* normalised = elements<T>(call, 1);
  T* deviation = elements<T>(call, 2);
  const T* x = elements<T>(call, 3);
  const T* gamma = elements<T>(call, 4);
  const T* beta = elements<T>(call, 5);
  for_each_row(extent(call, 3, 0), context, [=] __device__(std::int64_t row) {
    const T* in = x + row * columns;
    T sum = 0;
    for (std::int64_t i = threadIdx.x; i < columns; i += blockDim.x) sum += in[i];
    const T mean = block_sum(sum) / T(columns);
    T squares = 0;
    for (std::int64_t i = threadIdx.x; i < columns; i += blockDim.x) {
      squares += (in[i] - mean) * (in[i] - mean);
    }
    const T reciprocal = T(1) / sqrt(block_sum(squares) / T(columns) + epsilon);
    if (threadIdx.x == 0) deviation[row] = reciprocal;
    for (std::int64_t i = threadIdx.x; i < columns; i += blockDim.x) {
      const T value = (in[i] - mean) * reciprocal;
      normalised[row * columns + i] = value;
      output[row * columns + i] = value * gamma[i] + beta[i];
    }
  });
}

template <typename T>
void layer_norm_backward_of(const OpCall& call, const LaunchContext& context) {
  const std::int64_t rows = extent(call, 3, 0);
  const std::int64_t columns = extent(call, 3, 1);
  T* grad_x = elements<T>(call, 0);
  T* grad_gamma = elements<T>(call, 1);
  T* grad_beta = elements<T>(call, 2);
  const T* grad_output = elements<T>(call, 3);
  const T* normalised = elements<T>(call, 4);
  const T* deviation = elements<T>(call, 5);
  const T* gamma = elements<T>(call, 6);
  for_each_row(rows, context, [=] __device__(std::int64_t row) {
    const T* grad = grad_output + row * columns;
    const T* value = normalised + row * columns;
    T sum = 0;
    T product = 0;
    for (std::int64_t i = threadIdx.x; i < columns; i += blockDim.x) {
      sum += grad[i] * gamma[i];
      product += grad[i] * gamma[i] * value[i];
    }
    const T mean = block_sum(sum) / T(columns);
    const T mean_product = block_sum(product) / T(columns);
    for (std::int64_t i = threadIdx.x; i < columns; i += blockDim.x) {
      grad_x[row * columns + i] =
          deviation[row] * (grad[i] * gamma[i] - mean - value[i] * mean_product);
    }
  });
  for_each(columns, context, [=] __device__(std::int64_t i) {
    T gamma_sum = 0;
    T beta_sum = 0;
    for (std::int64_t row = 0; row < rows; ++row) {
      const T grad = grad_output[row * columns + i];
      gamma_sum += grad * normalised[row * columns + i];
      beta_sum += grad;
    }
    grad_gamma[i] += gamma_sum;
    grad_beta[i] += beta_sum;
  });
}

template <typename T>
void split_heads_of(const OpCall& call, const LaunchContext& context) {
  const auto params = call.params.as<HeadsParams>();
  T* heads = elements<T>(call, 0);
  const T* rows = elements<T>(call, 1);
  for_each(call.operand(0).elements(), context,
           [=] __device__(std::int64_t i) { heads[i] = rows[row_index(params, i)]; });
}

template <typename T>
void merge_heads_of(const OpCall& call, const LaunchContext& context) {
  auto params = call.params.as<HeadsParams>();
  T* rows = elements<T>(call, 0);
  for (params.part = 0; params.part < params.parts; ++params.part) {
    const auto operand = 1 + static_cast<std::size_t>(params.part);
    const T* heads = elements<T>(call, operand);
    for_each(call.operand(operand).elements(), context,
             [=] __device__(std::int64_t i) { rows[row_index(params, i)] = heads[i]; });
  }
}

template <typename T>
void causal_softmax_forward_of(const OpCall& call, const LaunchContext& context) {
  const T scale = T(call.params.as<SoftmaxParams>().scale);
  const std::int64_t length = extent(call, 0, 2);
  T* probabilities = elements<T>(call, 0);
  const T* scores = elements<T>(call, 1);
  for_each_row(call.operand(0).elements() / length, context, [=] __device__(std::int64_t row) {
    const T* in = scores + row * length;
    T* out = probabilities + row * length;
    const std::int64_t visible = row % length + 1;
    T largest = in[0] * scale;
    for (std::int64_t i = threadIdx.x; i < visible; i += blockDim.x) {
      largest = in[i] * scale > largest ? in[i] * scale : largest;
    }
    largest = block_max(largest);
    T sum = 0;
    for (std::int64_t i = threadIdx.x; i < visible; i += blockDim.x) {
      out[i] = exp(in[i] * scale - largest);
      sum += out[i];
    }
    sum = block_sum(sum);
    for (std::int64_t i = threadIdx.x; i < length; i += blockDim.x) {
      out[i] = i < visible ? out[i] / sum : T(0);
    }
  });
}

template <typename T>
void causal_softmax_backward_of(const OpCall& call, const LaunchContext& context) {
  const T scale = T(call.params.as<SoftmaxParams>().scale);
  const std::int64_t length = extent(call, 0, 2);
  T* grad_scores = elements<T>(call, 0);
  const T* grad_probabilities = elements<T>(call, 1);
  const T* probabilities = elements<T>(call, 2);
  for_each_row(call.operand(0).elements() / length, context, [=] __device__(std::int64_t row) {
    const T* grad = grad_probabilities + row * length;
    const T* value = probabilities + row * length;
    T dot = 0;
    for (std::int64_t i = threadIdx.x; i < length; i += blockDim.x) dot += grad[i] * value[i];
    dot = block_sum(dot);
    for (std::int64_t i = threadIdx.x; i < length; i += blockDim.x) {
      grad_scores[row * length + i] = scale * value[i] * (grad[i] - dot);
    }
  });
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
  for_each(call.operand(0).elements(), context, [=] __device__(std::int64_t i) {
    const std::int64_t row = i / hidden;
    output[i] = token_table[table_row(tokens[row], vocabulary) * hidden + i % hidden] +
                position_table[row % length * hidden + i % hidden];
  });
}

template <typename T>
void embedding_backward_of(const OpCall& call, const LaunchContext& context) {
  const std::int64_t rows = extent(call, 3, 0);
  const std::int64_t hidden = extent(call, 3, 1);
  const std::int64_t vocabulary = extent(call, 0, 0);
  const std::int64_t length = extent(call, 1, 0);
  T* grad_tokens = elements<T>(call, 0);
  T* grad_positions = elements<T>(call, 1);
  const auto* tokens = elements<std::int32_t>(call, 2);
  const T* grad_output = elements<T>(call, 3);
  // A thread owns a table element and walks the rows in order, so the sum needs no atomics.
  for_each(vocabulary * hidden, context, [=] __device__(std::int64_t i) {
    for (std::int64_t row = 0; row < rows; ++row) {
      if (table_row(tokens[row], vocabulary) == i / hidden) {
        grad_tokens[i] += grad_output[row * hidden + i % hidden];
      }
    }
  });
  for_each(length * hidden, context, [=] __device__(std::int64_t i) {
    for (std::int64_t row = i / hidden; row < rows; row += length) {
      grad_positions[i] += grad_output[row * hidden + i % hidden];
    }
  });
}

template <typename T>
void cross_entropy_forward_of(const OpCall& call, const LaunchContext& context) {
  const std::int64_t rows = extent(call, 2, 0);
  const std::int64_t vocabulary = extent(call, 2, 1);
  T* loss = elements<T>(call, 0);
  T* probabilities = elements<T>(call, 1);
  const T* logits = elements<T>(call, 2);
  const auto* labels = elements<std::int32_t>(call, 3);
  const T* loss_mask = elements<T>(call, 4);
  for_each_row(rows, context, [=] __device__(std::int64_t row) {
    const T* in = logits + row * vocabulary;
    T* out = probabilities + row * vocabulary;
    T largest = in[0];
    for (std::int64_t i = threadIdx.x; i < vocabulary; i += blockDim.x) {
      largest = in[i] > largest ? in[i] : largest;
    }
    largest = block_max(largest);
    T sum = 0;
    for (std::int64_t i = threadIdx.x; i < vocabulary; i += blockDim.x) {
      out[i] = exp(in[i] - largest);
      sum += out[i];
    }
    sum = block_sum(sum);
    for (std::int64_t i = threadIdx.x; i < vocabulary; i += blockDim.x) out[i] /= sum;
  });
  for_each_row(1, context, [=] __device__(std::int64_t) {
    T total = 0;
    for (std::int64_t row = threadIdx.x; row < rows; row += blockDim.x) {
      const std::int64_t label = row * vocabulary + table_row(labels[row], vocabulary);
      if (loss_mask[row] != T(0)) total -= loss_mask[row] * log(probabilities[label]);
    }
    total = block_sum(total);
    const T count = counted_rows(loss_mask, rows);
    if (threadIdx.x == 0) *loss = count == T(0) ? T(0) : total / count;
  });
}

template <typename T>
void cross_entropy_backward_of(const OpCall& call, const LaunchContext& context) {
  const T grad_scale = T(call.params.as<LossParams>().grad_scale);
  const std::int64_t rows = extent(call, 0, 0);
  const std::int64_t vocabulary = extent(call, 0, 1);
  T* grad_logits = elements<T>(call, 0);
  const T* probabilities = elements<T>(call, 1);
  const auto* labels = elements<std::int32_t>(call, 2);
  const T* loss_mask = elements<T>(call, 3);
  for_each_row(rows, context, [=] __device__(std::int64_t row) {
    const T count = counted_rows(loss_mask, rows);
    const T weight = count == T(0) ? T(0) : grad_scale * loss_mask[row] / count;
    const std::int64_t label = table_row(labels[row], vocabulary);
    for (std::int64_t i = threadIdx.x; i < vocabulary; i += blockDim.x) {
      // A row that does not count may hold anything, NaN included.
      const T grad = weight == T(0) ? T(0) : weight * probabilities[row * vocabulary + i];
      grad_logits[row * vocabulary + i] = i == label ? grad - weight : grad;
    }
  });
}

}  // namespace

void layer_norm_forward(const OpCall& call, const LaunchContext& context) {
  launch_typed(call, context, layer_norm_forward_of<float>, layer_norm_forward_of<double>);
}

void layer_norm_backward(const OpCall& call, const LaunchContext& context) {
  launch_typed(call, context, layer_norm_backward_of<float>, layer_norm_backward_of<double>);
}

void split_heads(const OpCall& call, const LaunchContext& context) {
  launch_typed(call, context, split_heads_of<float>, split_heads_of<double>);
}

void merge_heads(const OpCall& call, const LaunchContext& context) {
  launch_typed(call, context, merge_heads_of<float>, merge_heads_of<double>);
}

void causal_softmax_forward(const OpCall& call, const LaunchContext& context) {
  launch_typed(call, context, causal_softmax_forward_of<float>, causal_softmax_forward_of<double>);
}

void causal_softmax_backward(const OpCall& call, const LaunchContext& context) {
  launch_typed(call, context, causal_softmax_backward_of<float>,
               causal_softmax_backward_of<double>);
}

void embedding_forward(const OpCall& call, const LaunchContext& context) {
  launch_typed(call, context, embedding_forward_of<float>, embedding_forward_of<double>);
}

void embedding_backward(const OpCall& call, const LaunchContext& context) {
  launch_typed(call, context, embedding_backward_of<float>, embedding_backward_of<double>);
}

void cross_entropy_forward(const OpCall& call, const LaunchContext& context) {
  launch_typed(call, context, cross_entropy_forward_of<float>, cross_entropy_forward_of<double>);
}

void cross_entropy_backward(const OpCall& call, const LaunchContext& context) {
  launch_typed(call, context, cross_entropy_backward_of<float>, cross_entropy_backward_of<double>);
}

}  // namespace cgconform::workloads::cuda

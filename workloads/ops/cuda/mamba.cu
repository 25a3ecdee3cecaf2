#include "workloads/ops/cuda/columns.cuh"
#include "workloads/ops/cuda/kernels.hpp"
#include "workloads/ops/cuda/packs.cuh"
#include "workloads/ops/mamba.hpp"

namespace cgconform::workloads::cuda {

namespace {

template <typename A>
__device__ A logistic(A x) {
  return A(1) / (A(1) + exp(-x));
}
template <typename A>
__device__ A softplus(A x) {
  return x > A(20) ? x : log1p(exp(x));
}
/// Derivative of x * logistic(x).
template <typename A>
__device__ A silu_slope(A x) {
  const A share = logistic(x);
  return share * (A(1) + x * (A(1) - share));
}

/// Where sequences begin in the rows of a batch.
struct Sequences {
  /// `cu_seqlens` is the number of an optional operand.
  Sequences(const OpCall& call, std::size_t cu_seqlens, std::int64_t rows)
      : length(rows),
        borders(elements<std::int32_t>(call, cu_seqlens)),
        count(borders == nullptr ? 0 : extent(call, cu_seqlens, 1)) {}

  /// How many rows of the same sequence come before `row`.
  __device__ std::int64_t before(std::int64_t row) const {
    const std::int64_t position = row % length;
    std::int64_t first = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t border = borders[row / length * count + i];
      if (border <= position) first = larger(first, border);
    }
    return position - first;
  }
  /// True where the row `ahead` after `row` is of the same sequence.
  __device__ bool holds_after(std::int64_t row, std::int64_t ahead) const {
    return row % length + ahead < length && before(row + ahead) >= ahead;
  }
  /// True where another sequence ends right before `row`, in the same row of the batch.
  __device__ bool restarts(std::int64_t row) const {
    return count > 0 && row % length > 0 && before(row) == 0;
  }

  std::int64_t length;
  const std::int32_t* borders;
  std::int64_t count;
};

/// What the convolution reads.
template <typename T>
struct Convolution {
  using A = Arithmetic<T>;

  const T* x;
  const T* weight;
  const T* bias;
  std::int64_t taps;
  std::int64_t channels;
  Sequences sequences;

  /// What is summed up at one row and channel.
  __device__ A sum(std::int64_t row, std::int64_t channel) const {
    const std::int64_t before = sequences.before(row);
    A result = widened(bias[channel]);
    for (std::int64_t tap = 0; tap < taps; ++tap) {
      const std::int64_t back = taps - 1 - tap;
      if (before < back) continue;
      result +=
          widened(weight[tap * channels + channel]) * widened(x[(row - back) * channels + channel]);
    }
    return result;
  }
};

template <typename T>
void causal_convolution_forward_of(const OpCall& call, const LaunchContext& context) {
  const Convolution<T> convolution{
      elements<T>(call, 1), elements<T>(call, 2),
      elements<T>(call, 3), extent(call, 2, 0),
      extent(call, 2, 1),   Sequences(call, 4, call.params.as<ConvolutionParams>().length)};
  T* output = elements<T>(call, 0);
  for_each(call.operand(0).elements(), context, [=] __device__(std::int64_t i) {
    const auto sum = convolution.sum(i / convolution.channels, i % convolution.channels);
    output[i] = narrowed<T>(sum * logistic(sum));
  });
}

template <typename T>
void causal_convolution_backward_of(const OpCall& call, const LaunchContext& context) {
  using A = Arithmetic<T>;
  const Convolution<T> convolution{
      elements<T>(call, 5), elements<T>(call, 6),
      elements<T>(call, 7), extent(call, 6, 0),
      extent(call, 6, 1),   Sequences(call, 8, call.params.as<ConvolutionParams>().length)};
  const std::int64_t channels = convolution.channels;
  const std::int64_t rows = extent(call, 0, 0);
  T* grad_x = elements<T>(call, 0);
  A* sums = elements<A>(call, 3);
  const T* grad_output = elements<T>(call, 4);
  for_each(rows * channels, context, [=] __device__(std::int64_t i) {
    sums[i] = widened(grad_output[i]) * silu_slope(convolution.sum(i / channels, i % channels));
  });
  for_each(rows * channels, context, [=] __device__(std::int64_t i) {
    A sum = 0;
    for (std::int64_t tap = 0; tap < convolution.taps; ++tap) {
      const std::int64_t ahead = convolution.taps - 1 - tap;
      if (!convolution.sequences.holds_after(i / channels, ahead)) continue;
      sum +=
          sums[i + ahead * channels] * widened(convolution.weight[tap * channels + i % channels]);
    }
    grad_x[i] = narrowed<T>(sum);
  });
  for (std::int64_t tap = 0; tap < convolution.taps; ++tap) {
    const std::int64_t back = convolution.taps - 1 - tap;
    add_column_sums<A>(rows, channels, elements<A>(call, 1) + tap * channels,
                       tap == 0 ? elements<A>(call, 2) : nullptr, context,
                       [=] __device__(std::int64_t row, std::int64_t channel) {
                         const A grad = sums[row * channels + channel];
                         if (convolution.sequences.before(row) < back) {
                           return ColumnPair<A>{A(0), grad};
                         }
                         const T before = convolution.x[(row - back) * channels + channel];
                         return ColumnPair<A>{grad * widened(before), grad};
                       });
  }
}

/// The operands of a scan, as ScanInputs lists them, and the sizes that places follow from.
template <typename T>
struct ScanReader {
  using A = Arithmetic<T>;

  ScanReader(const OpCall& call, std::size_t first)
      : params(call.params.as<ScanParams>()),
        sequences(call, first + 6, params.length),
        inner(params.inner()),
        rows(params.rows()),
        values(elements<T>(call, first)),
        state_weights(elements<T>(call, first + 1)),
        steps(elements<T>(call, first + 2)),
        step_bias(elements<T>(call, first + 3)),
        decay_log(elements<T>(call, first + 4)),
        skips(elements<T>(call, first + 5)) {}

  __device__ std::int64_t batch_row(std::int64_t row) const {
    return row / params.count * params.length + params.first + row % params.count;
  }
  __device__ A value(std::int64_t row, std::int64_t column) const {
    return widened(values[batch_row(row) * inner + column]);
  }
  __device__ A input_weight(std::int64_t row, std::int64_t n) const {
    return widened(state_weights[batch_row(row) * 2 * params.states + n]);
  }
  __device__ A output_weight(std::int64_t row, std::int64_t n) const {
    return widened(state_weights[(batch_row(row) * 2 + 1) * params.states + n]);
  }
  __device__ A raw_step(std::int64_t row, std::int64_t head) const {
    return widened(steps[batch_row(row) * params.heads + head]) + widened(step_bias[head]);
  }
  __device__ A step(std::int64_t row, std::int64_t head) const {
    return softplus(raw_step(row, head));
  }
  __device__ A rate(std::int64_t head) const { return -exp(widened(decay_log[head])); }
  /// What is left of the state before the row: nothing of another sequence's.
  __device__ A decay(std::int64_t row, A step, A rate) const {
    return sequences.restarts(batch_row(row)) ? A(0) : exp(step * rate);
  }
  __device__ A skip(std::int64_t head) const { return widened(skips[head]); }
  /// Index of an element of the state at a row of the chunk.
  __device__ std::int64_t state_at(std::int64_t row, std::int64_t column, std::int64_t n) const {
    return (row * inner + column) * params.states + n;
  }

  ScanParams params;
  Sequences sequences;
  std::int64_t inner;
  std::int64_t rows;
  const T* values;
  const T* state_weights;
  const T* steps;
  const T* step_bias;
  const T* decay_log;
  const T* skips;
};

template <typename T>
void selective_scan_forward_of(const OpCall& call, const LaunchContext& context) {
  using A = Arithmetic<T>;
  const ScanReader<T> in(call, 3);
  T* output = elements<T>(call, 0);
  A* final = elements<A>(call, 1);
  const A* initial = elements<A>(call, 2);
  const std::int64_t columns = in.params.sequences * in.inner;
  // One thread carries the states of one channel of one sequence along the chunk.
  for_each(columns, context, [=] __device__(std::int64_t i) {
    const std::int64_t column = i % in.inner;
    const std::int64_t head = column / in.params.head_size;
    const A rate = in.rate(head);
    A* state = final + i * in.params.states;
    for (std::int64_t n = 0; n < in.params.states; ++n) {
      state[n] = initial[i * in.params.states + n];
    }
    const std::int64_t first = i / in.inner * in.params.count;
    for (std::int64_t row = first; row < first + in.params.count; ++row) {
      const A step = in.step(row, head);
      const A decay = in.decay(row, step, rate);
      const A value = in.value(row, column);
      A sum = 0;
      for (std::int64_t n = 0; n < in.params.states; ++n) {
        state[n] = decay * state[n] + step * in.input_weight(row, n) * value;
        sum += in.output_weight(row, n) * state[n];
      }
      output[in.batch_row(row) * in.inner + column] = narrowed<T>(sum + in.skip(head) * value);
    }
  });
}

/// The states before each row, and the gradients of those after each row.
template <typename T>
void scan_back(const ScanReader<T>& in, const OpCall& call, const LaunchContext& context) {
  using A = Arithmetic<T>;
  A* grad_state = elements<A>(call, 6);
  A* states = elements<A>(call, 7);
  A* grad_states = elements<A>(call, 8);
  const T* grad_output = elements<T>(call, 10);
  const A* initial = elements<A>(call, 11);
  for_each(in.params.state_elements(), context, [=] __device__(std::int64_t i) {
    const std::int64_t n = i % in.params.states;
    const std::int64_t column = i / in.params.states % in.inner;
    const std::int64_t head = column / in.params.head_size;
    const std::int64_t first = i / in.params.states / in.inner * in.params.count;
    const std::int64_t end = first + in.params.count;
    const A rate = in.rate(head);
    A state = initial[i];
    for (std::int64_t row = first; row < end; ++row) {
      states[in.state_at(row, column, n)] = state;
      const A step = in.step(row, head);
      state = in.decay(row, step, rate) * state +
              step * in.input_weight(row, n) * in.value(row, column);
    }
    A grad = grad_state[i];
    for (std::int64_t row = end - 1; row >= first; --row) {
      grad +=
          widened(grad_output[in.batch_row(row) * in.inner + column]) * in.output_weight(row, n);
      grad_states[in.state_at(row, column, n)] = grad;
      grad *= in.decay(row, in.step(row, head), rate);
    }
    grad_state[i] = grad;
  });
}

/// Gradients of the values and of both kinds of weights.
template <typename T>
void scan_value_grads(const ScanReader<T>& in, const OpCall& call, const LaunchContext& context) {
  using A = Arithmetic<T>;
  T* grad_values = elements<T>(call, 0);
  T* grad_weights = elements<T>(call, 1);
  const A* states = elements<A>(call, 7);
  const A* grad_states = elements<A>(call, 8);
  const T* grad_output = elements<T>(call, 10);
  for_each(in.rows * in.inner, context, [=] __device__(std::int64_t i) {
    const std::int64_t row = i / in.inner;
    const std::int64_t column = i % in.inner;
    const std::int64_t head = column / in.params.head_size;
    A sum = 0;
    for (std::int64_t n = 0; n < in.params.states; ++n) {
      sum += grad_states[in.state_at(row, column, n)] * in.input_weight(row, n);
    }
    const A grad_y = widened(grad_output[in.batch_row(row) * in.inner + column]);
    grad_values[in.batch_row(row) * in.inner + column] =
        narrowed<T>(in.step(row, head) * sum + in.skip(head) * grad_y);
  });
  for_each(in.rows * in.params.states, context, [=] __device__(std::int64_t i) {
    const std::int64_t row = i / in.params.states;
    const std::int64_t n = i % in.params.states;
    const T* grad_y = grad_output + in.batch_row(row) * in.inner;
    A input_sum = 0;
    A output_sum = 0;
    for (std::int64_t column = 0; column < in.inner; ++column) {
      const std::int64_t head = column / in.params.head_size;
      const A step = in.step(row, head);
      const std::int64_t at = in.state_at(row, column, n);
      const A added = step * in.value(row, column);
      const A decay = in.decay(row, step, in.rate(head));
      input_sum += grad_states[at] * added;
      output_sum +=
          widened(grad_y[column]) * (decay * states[at] + added * in.input_weight(row, n));
    }
    T* out = grad_weights + in.batch_row(row) * 2 * in.params.states;
    out[n] = narrowed<T>(input_sum);
    out[in.params.states + n] = narrowed<T>(output_sum);
  });
}

/// For each row and head: the gradients of the step size before softplus, of the logarithm of the
/// decay and of the skip; then those of the parameters.
template <typename T>
void scan_head_grads(const ScanReader<T>& in, const OpCall& call, const LaunchContext& context) {
  using A = Arithmetic<T>;
  T* grad_steps = elements<T>(call, 2);
  const A* states = elements<A>(call, 7);
  const A* grad_states = elements<A>(call, 8);
  A* sums = elements<A>(call, 9);
  const T* grad_output = elements<T>(call, 10);
  const std::int64_t kind = in.rows * in.params.heads;
  for_each(kind, context, [=] __device__(std::int64_t i) {
    const std::int64_t row = i / in.params.heads;
    const std::int64_t head = i % in.params.heads;
    A through_input = 0;
    A through_decay = 0;
    A skip = 0;
    for (std::int64_t p = 0; p < in.params.head_size; ++p) {
      const std::int64_t column = head * in.params.head_size + p;
      const A value = in.value(row, column);
      skip += widened(grad_output[in.batch_row(row) * in.inner + column]) * value;
      for (std::int64_t n = 0; n < in.params.states; ++n) {
        const std::int64_t at = in.state_at(row, column, n);
        through_input += grad_states[at] * in.input_weight(row, n) * value;
        through_decay += grad_states[at] * states[at];
      }
    }
    const A step = in.step(row, head);
    const A slope = in.rate(head) * in.decay(row, step, in.rate(head)) * through_decay;
    const A grad_step = (through_input + slope) * logistic(in.raw_step(row, head));
    sums[i] = grad_step;
    sums[kind + i] = slope * step;
    sums[2 * kind + i] = skip;
    grad_steps[in.batch_row(row) * in.params.heads + head] = narrowed<T>(grad_step);
  });
  const std::int64_t heads = in.params.heads;
  add_column_sums<A>(in.rows, heads, elements<A>(call, 3), elements<A>(call, 4), context,
                     [=] __device__(std::int64_t row, std::int64_t head) {
                       const std::int64_t at = row * heads + head;
                       return ColumnPair<A>{sums[at], sums[kind + at]};
                     });
  add_column_sums<A>(in.rows, heads, elements<A>(call, 5), static_cast<A*>(nullptr), context,
                     [=] __device__(std::int64_t row, std::int64_t head) {
                       return ColumnPair<A>{sums[2 * kind + row * heads + head], A(0)};
                     });
}

template <typename T>
void selective_scan_backward_of(const OpCall& call, const LaunchContext& context) {
  const ScanReader<T> in(call, 12);
  scan_back(in, call, context);
  scan_value_grads(in, call, context);
  scan_head_grads(in, call, context);
}

template <typename T>
void gate_forward_of(const OpCall& call, const LaunchContext& context) {
  using A = Arithmetic<T>;
  const T* x = elements<T>(call, 1);
  const T* gate = elements<T>(call, 2);
  map(
      call.operand(0).elements(), context, elements<T>(call, 0),
      [] __device__(A value, A opened) { return value * opened * logistic(opened); }, x, gate);
}

template <typename T>
void gate_backward_of(const OpCall& call, const LaunchContext& context) {
  using A = Arithmetic<T>;
  const std::int64_t count = call.operand(0).elements();
  const T* grad_output = elements<T>(call, 2);
  const T* x = elements<T>(call, 3);
  const T* gate = elements<T>(call, 4);
  map(
      count, context, elements<T>(call, 0),
      [] __device__(A grad, A opened) { return grad * opened * logistic(opened); }, grad_output,
      gate);
  map(
      count, context, elements<T>(call, 1),
      [] __device__(A grad, A value, A opened) { return grad * value * silu_slope(opened); },
      grad_output, x, gate);
}

}  // namespace

void causal_convolution_forward(const OpCall& call, const LaunchContext& context) {
  launch_typed(call, context, 0, CGCONFORM_FLOATING_KERNELS(causal_convolution_forward_of));
}

void causal_convolution_backward(const OpCall& call, const LaunchContext& context) {
  launch_typed(call, context, 0, CGCONFORM_FLOATING_KERNELS(causal_convolution_backward_of));
}

void selective_scan_forward(const OpCall& call, const LaunchContext& context) {
  launch_typed(call, context, 0, CGCONFORM_FLOATING_KERNELS(selective_scan_forward_of));
}

void selective_scan_backward(const OpCall& call, const LaunchContext& context) {
  launch_typed(call, context, 0, CGCONFORM_FLOATING_KERNELS(selective_scan_backward_of));
}

void gate_forward(const OpCall& call, const LaunchContext& context) {
  launch_typed(call, context, 0, CGCONFORM_FLOATING_KERNELS(gate_forward_of));
}

void gate_backward(const OpCall& call, const LaunchContext& context) {
  launch_typed(call, context, 0, CGCONFORM_FLOATING_KERNELS(gate_backward_of));
}

}  // namespace cgconform::workloads::cuda

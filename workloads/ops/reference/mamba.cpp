#include "workloads/ops/mamba.hpp"

#include <algorithm>
#include <cmath>

#include "workloads/ops/reference/kernel_access.hpp"
#include "workloads/ops/reference/kernels.hpp"

namespace cgconform::workloads::reference {

namespace {

template <typename A>
A logistic(A x) {
  return A(1) / (A(1) + std::exp(-x));
}
template <typename A>
A softplus(A x) {
  return x > A(20) ? x : std::log1p(std::exp(x));
}
/// Derivative of x * logistic(x).
template <typename A>
A silu_slope(A x) {
  const A share = logistic(x);
  return share * (A(1) + x * (A(1) - share));
}

/// Where sequences begin in the rows of a batch.
class Sequences {
 public:
  /// `cu_seqlens` is the number of an optional operand.
  Sequences(const OpCall& call, std::size_t cu_seqlens, std::int64_t length)
      : length_(length),
        borders_(elements<std::int32_t>(call, cu_seqlens)),
        count_(borders_ == nullptr ? 0 : extent(call, cu_seqlens, 1)) {}

  /// How many rows of the same sequence come before `row`.
  std::int64_t before(std::int64_t row) const {
    const std::int64_t position = row % length_;
    std::int64_t first = 0;
    for (std::int64_t i = 0; i < count_; ++i) {
      const std::int64_t border = borders_[row / length_ * count_ + i];
      if (border <= position) first = std::max(first, border);
    }
    return position - first;
  }
  /// True where the row `ahead` after `row` is of the same sequence.
  bool holds_after(std::int64_t row, std::int64_t ahead) const {
    return row % length_ + ahead < length_ && before(row + ahead) >= ahead;
  }
  /// True where another sequence ends right before `row`, in the same row of the batch.
  bool restarts(std::int64_t row) const { return row % length_ > 0 && before(row) == 0; }

 private:
  std::int64_t length_;
  const std::int32_t* borders_;
  std::int64_t count_;
};

/// What the convolution sums up at one row and channel.
template <typename T>
Arithmetic<T> convolved(const T* x, const T* weight, const T* bias, std::int64_t taps,
                        std::int64_t channels, const Sequences& sequences, std::int64_t row,
                        std::int64_t channel) {
  const std::int64_t before = sequences.before(row);
  Arithmetic<T> sum = bias[channel];
  for (std::int64_t tap = 0; tap < taps; ++tap) {
    const std::int64_t back = taps - 1 - tap;
    if (before < back) continue;
    sum += Arithmetic<T>(weight[tap * channels + channel]) *
           Arithmetic<T>(x[(row - back) * channels + channel]);
  }
  return sum;
}

/// The operands of a scan from number `first` on: what ScanInputs holds, in its order.
template <typename T>
struct ScanReader {
  using A = Arithmetic<T>;

  ScanReader(const OpCall& call, std::size_t first)
      : params(call.params.as<ScanParams>()),
        sequences(call, first + 6, params.length),
        values(elements<T>(call, first)),
        state_weights(elements<T>(call, first + 1)),
        steps(elements<T>(call, first + 2)),
        step_bias(elements<T>(call, first + 3)),
        decay_log(elements<T>(call, first + 4)),
        skips(elements<T>(call, first + 5)) {}

  A value(std::int64_t row, std::int64_t head, std::int64_t p) const {
    return values[params.batch_row(row) * params.inner() + head * params.head_size + p];
  }
  A input_weight(std::int64_t row, std::int64_t n) const {
    return state_weights[params.batch_row(row) * 2 * params.states + n];
  }
  A output_weight(std::int64_t row, std::int64_t n) const {
    return state_weights[(params.batch_row(row) * 2 + 1) * params.states + n];
  }
  /// Before softplus.
  A raw_step(std::int64_t row, std::int64_t head) const {
    return A(steps[params.batch_row(row) * params.heads + head]) + A(step_bias[head]);
  }
  A step(std::int64_t row, std::int64_t head) const { return softplus(raw_step(row, head)); }
  A rate(std::int64_t head) const { return -std::exp(A(decay_log[head])); }
  /// What is left of the state before the row: nothing of another sequence's.
  A decay(std::int64_t row, std::int64_t head) const {
    if (sequences.restarts(params.batch_row(row))) return A(0);
    return std::exp(step(row, head) * rate(head));
  }
  A skip(std::int64_t head) const { return skips[head]; }

  ScanParams params;
  Sequences sequences;
  const T* values;
  const T* state_weights;
  const T* steps;
  const T* step_bias;
  const T* decay_log;
  const T* skips;
};

/// Calls visit(sequence, head, p, n, index into a state).
template <typename Visit>
void for_each_state(const ScanParams& params, const Visit& visit) {
  std::int64_t index = 0;
  for (std::int64_t sequence = 0; sequence < params.sequences; ++sequence) {
    for (std::int64_t head = 0; head < params.heads; ++head) {
      for (std::int64_t p = 0; p < params.head_size; ++p) {
        for (std::int64_t n = 0; n < params.states; ++n) visit(sequence, head, p, n, index++);
      }
    }
  }
}

/// Index of an element of the state at a row of the chunk.
std::int64_t state_at(const ScanParams& params, std::int64_t row, std::int64_t head, std::int64_t p,
                      std::int64_t n) {
  return ((row * params.heads + head) * params.head_size + p) * params.states + n;
}

/// The states before each row, and the gradients of those after each row.
template <typename T>
void scan_back(const ScanReader<T>& in, const T* grad_output, const Arithmetic<T>* initial,
               Arithmetic<T>* grad_state, Arithmetic<T>* states, Arithmetic<T>* grad_states) {
  using A = Arithmetic<T>;
  const ScanParams& params = in.params;
  for_each_state(params, [&](std::int64_t sequence, std::int64_t head, std::int64_t p,
                             std::int64_t n, std::int64_t index) {
    A state = initial[index];
    const std::int64_t first = sequence * params.count;
    for (std::int64_t row = first; row < first + params.count; ++row) {
      states[state_at(params, row, head, p, n)] = state;
      state = in.decay(row, head) * state +
              in.step(row, head) * in.input_weight(row, n) * in.value(row, head, p);
    }
    A grad = grad_state[index];
    for (std::int64_t row = first + params.count - 1; row >= first; --row) {
      const A grad_y =
          grad_output[params.batch_row(row) * params.inner() + head * params.head_size + p];
      grad += grad_y * in.output_weight(row, n);
      grad_states[state_at(params, row, head, p, n)] = grad;
      grad *= in.decay(row, head);
    }
    grad_state[index] = grad;
  });
}

/// Gradients of the values and of both kinds of weights.
template <typename T>
void scan_value_grads(const ScanReader<T>& in, const T* grad_output, const Arithmetic<T>* states,
                      const Arithmetic<T>* grad_states, T* grad_values, T* grad_weights) {
  using A = Arithmetic<T>;
  const ScanParams& params = in.params;
  for (std::int64_t row = 0; row < params.rows(); ++row) {
    T* out = grad_values + params.batch_row(row) * params.inner();
    T* of_weights = grad_weights + params.batch_row(row) * 2 * params.states;
    const T* grad_y = grad_output + params.batch_row(row) * params.inner();
    for (std::int64_t head = 0; head < params.heads; ++head) {
      for (std::int64_t p = 0; p < params.head_size; ++p) {
        A sum = 0;
        for (std::int64_t n = 0; n < params.states; ++n) {
          sum += grad_states[state_at(params, row, head, p, n)] * in.input_weight(row, n);
        }
        const std::int64_t column = head * params.head_size + p;
        out[column] = static_cast<T>(in.step(row, head) * sum + in.skip(head) * A(grad_y[column]));
      }
    }
    for (std::int64_t n = 0; n < params.states; ++n) {
      A input_sum = 0;
      A output_sum = 0;
      for (std::int64_t head = 0; head < params.heads; ++head) {
        const A step = in.step(row, head);
        const A decay = in.decay(row, head);
        for (std::int64_t p = 0; p < params.head_size; ++p) {
          const std::int64_t at = state_at(params, row, head, p, n);
          const A added = step * in.value(row, head, p);
          input_sum += grad_states[at] * added;
          output_sum += A(grad_y[head * params.head_size + p]) *
                        (decay * states[at] + added * in.input_weight(row, n));
        }
      }
      of_weights[n] = static_cast<T>(input_sum);
      of_weights[params.states + n] = static_cast<T>(output_sum);
    }
  }
}

/// For each row and head: the gradients of the step size before softplus, of the logarithm of the
/// decay and of the skip.
template <typename T>
void scan_head_sums(const ScanReader<T>& in, const T* grad_output, const Arithmetic<T>* states,
                    const Arithmetic<T>* grad_states, Arithmetic<T>* sums) {
  using A = Arithmetic<T>;
  const ScanParams& params = in.params;
  const std::int64_t kind = params.rows() * params.heads;
  for (std::int64_t row = 0; row < params.rows(); ++row) {
    const T* grad_y = grad_output + params.batch_row(row) * params.inner();
    for (std::int64_t head = 0; head < params.heads; ++head) {
      A through_input = 0;
      A through_decay = 0;
      A skip = 0;
      for (std::int64_t p = 0; p < params.head_size; ++p) {
        const A value = in.value(row, head, p);
        skip += A(grad_y[head * params.head_size + p]) * value;
        for (std::int64_t n = 0; n < params.states; ++n) {
          const std::int64_t at = state_at(params, row, head, p, n);
          through_input += grad_states[at] * in.input_weight(row, n) * value;
          through_decay += grad_states[at] * states[at];
        }
      }
      const A slope = in.rate(head) * in.decay(row, head) * through_decay;
      const std::int64_t at = row * params.heads + head;
      sums[at] = (through_input + slope) * logistic(in.raw_step(row, head));
      sums[kind + at] = slope * in.step(row, head);
      sums[2 * kind + at] = skip;
    }
  }
}

}  // namespace

void causal_convolution_forward(const OpCall& call) {
  with_floating_type(call, 0, [&](auto type) {
    using T = decltype(type);
    using A = Arithmetic<T>;
    const Sequences sequences(call, 4, call.params.as<ConvolutionParams>().length);
    const std::int64_t channels = extent(call, 1, 1);
    T* output = elements<T>(call, 0);
    for (std::int64_t i = 0; i < call.operand(0).elements(); ++i) {
      const A sum = convolved(elements<T>(call, 1), elements<T>(call, 2), elements<T>(call, 3),
                              extent(call, 2, 0), channels, sequences, i / channels, i % channels);
      output[i] = static_cast<T>(sum * logistic(sum));
    }
  });
}

void causal_convolution_backward(const OpCall& call) {
  with_floating_type(call, 0, [&](auto type) {
    using T = decltype(type);
    using A = Arithmetic<T>;
    const Sequences sequences(call, 8, call.params.as<ConvolutionParams>().length);
    const std::int64_t rows = extent(call, 0, 0);
    const std::int64_t channels = extent(call, 0, 1);
    const std::int64_t taps = extent(call, 6, 0);
    T* grad_x = elements<T>(call, 0);
    A* grad_weight = elements<A>(call, 1);
    A* grad_bias = elements<A>(call, 2);
    A* sums = elements<A>(call, 3);
    const T* grad_output = elements<T>(call, 4);
    const T* x = elements<T>(call, 5);
    const T* weight = elements<T>(call, 6);
    for (std::int64_t i = 0; i < rows * channels; ++i) {
      const A sum = convolved(x, weight, elements<T>(call, 7), taps, channels, sequences,
                              i / channels, i % channels);
      sums[i] = A(grad_output[i]) * silu_slope(sum);
    }
    for (std::int64_t i = 0; i < rows * channels; ++i) {
      const std::int64_t row = i / channels;
      A sum = 0;
      for (std::int64_t tap = 0; tap < taps; ++tap) {
        const std::int64_t ahead = taps - 1 - tap;
        if (!sequences.holds_after(row, ahead)) continue;
        sum += sums[i + ahead * channels] * A(weight[tap * channels + i % channels]);
      }
      grad_x[i] = static_cast<T>(sum);
    }
    for (std::int64_t channel = 0; channel < channels; ++channel) {
      A bias_sum = 0;
      for (std::int64_t row = 0; row < rows; ++row) bias_sum += sums[row * channels + channel];
      grad_bias[channel] += bias_sum;
      for (std::int64_t tap = 0; tap < taps; ++tap) {
        const std::int64_t back = taps - 1 - tap;
        A sum = 0;
        for (std::int64_t row = 0; row < rows; ++row) {
          if (sequences.before(row) < back) continue;
          sum += sums[row * channels + channel] * A(x[(row - back) * channels + channel]);
        }
        grad_weight[tap * channels + channel] += sum;
      }
    }
  });
}

void selective_scan_forward(const OpCall& call) {
  with_floating_type(call, 0, [&](auto type) {
    using T = decltype(type);
    using A = Arithmetic<T>;
    const ScanReader<T> in(call, 3);
    const ScanParams& params = in.params;
    T* output = elements<T>(call, 0);
    A* state = elements<A>(call, 1);
    const A* initial = elements<A>(call, 2);
    for (std::int64_t i = 0; i < params.state_elements(); ++i) state[i] = initial[i];
    for (std::int64_t row = 0; row < params.rows(); ++row) {
      for (std::int64_t column = 0; column < params.inner(); ++column) {
        const std::int64_t head = column / params.head_size;
        const A value = in.value(row, head, column % params.head_size);
        A* own = state + (row / params.count * params.inner() + column) * params.states;
        A sum = 0;
        for (std::int64_t n = 0; n < params.states; ++n) {
          own[n] =
              in.decay(row, head) * own[n] + in.step(row, head) * in.input_weight(row, n) * value;
          sum += in.output_weight(row, n) * own[n];
        }
        output[params.batch_row(row) * params.inner() + column] =
            static_cast<T>(sum + in.skip(head) * value);
      }
    }
  });
}

void selective_scan_backward(const OpCall& call) {
  with_floating_type(call, 0, [&](auto type) {
    using T = decltype(type);
    using A = Arithmetic<T>;
    const ScanReader<T> in(call, 12);
    const ScanParams& params = in.params;
    A* states = elements<A>(call, 7);
    A* grad_states = elements<A>(call, 8);
    A* sums = elements<A>(call, 9);
    const T* grad_output = elements<T>(call, 10);
    scan_back(in, grad_output, elements<A>(call, 11), elements<A>(call, 6), states, grad_states);
    scan_value_grads(in, grad_output, states, grad_states, elements<T>(call, 0),
                     elements<T>(call, 1));
    scan_head_sums(in, grad_output, states, grad_states, sums);
    const std::int64_t kind = params.rows() * params.heads;
    for (std::int64_t row = 0; row < params.rows(); ++row) {
      for (std::int64_t head = 0; head < params.heads; ++head) {
        elements<T>(call, 2)[params.batch_row(row) * params.heads + head] =
            static_cast<T>(sums[row * params.heads + head]);
      }
    }
    for (std::int64_t parameter = 0; parameter < 3; ++parameter) {
      A* grad = elements<A>(call, 3 + static_cast<std::size_t>(parameter));
      for (std::int64_t head = 0; head < params.heads; ++head) {
        A sum = 0;
        for (std::int64_t row = 0; row < params.rows(); ++row) {
          sum += sums[parameter * kind + row * params.heads + head];
        }
        grad[head] += sum;
      }
    }
  });
}

void gate_forward(const OpCall& call) {
  with_floating_type(call, 0, [&](auto type) {
    using T = decltype(type);
    using A = Arithmetic<T>;
    T* output = elements<T>(call, 0);
    const T* x = elements<T>(call, 1);
    const T* gate = elements<T>(call, 2);
    for (std::int64_t i = 0; i < call.operand(0).elements(); ++i) {
      const A opened = gate[i];
      output[i] = static_cast<T>(A(x[i]) * opened * logistic(opened));
    }
  });
}

void gate_backward(const OpCall& call) {
  with_floating_type(call, 0, [&](auto type) {
    using T = decltype(type);
    using A = Arithmetic<T>;
    T* grad_x = elements<T>(call, 0);
    T* grad_gate = elements<T>(call, 1);
    const T* grad_output = elements<T>(call, 2);
    const T* x = elements<T>(call, 3);
    const T* gate = elements<T>(call, 4);
    for (std::int64_t i = 0; i < call.operand(0).elements(); ++i) {
      const A opened = gate[i];
      const A grad = grad_output[i];
      grad_x[i] = static_cast<T>(grad * opened * logistic(opened));
      grad_gate[i] = static_cast<T>(grad * A(x[i]) * silu_slope(opened));
    }
  });
}

}  // namespace cgconform::workloads::reference

#include "workloads/ops/cuda/columns.cuh"
#include "workloads/ops/cuda/kernels.hpp"
#include "workloads/ops/cuda/packs.cuh"
#include "workloads/ops/layer_norm.hpp"

namespace cgconform::workloads::cuda {

namespace {

template <typename T>
void layer_norm_forward_of(const OpCall& call, const LaunchContext& context) {
  using A = Arithmetic<T>;
  const A epsilon = A(call.params.as<LayerNormParams>().epsilon);
  const std::int64_t columns = extent(call, 3, 1);
  T* output = elements<T>(call, 0);
  T* normalised = elements<T>(call, 1);
  A* deviation = elements<A>(call, 2);
  const T* x = elements<T>(call, 3);
  const T* gamma = elements<T>(call, 4);
  const T* beta = elements<T>(call, 5);
  const bool packed =
      columns % pack_size<T> == 0 && on_pack_borders(output, normalised, x, gamma, beta);
  for_each_row(extent(call, 3, 0), context, [=] __device__(std::int64_t row) {
    const T* in = x + row * columns;
    A sum = 0;
    for_each_in_row<T>(columns, packed, [&](const Lanes& lanes) {
      const Pack<T> values = load(in, lanes);
      for_each_lane<T>(lanes, [&](int lane) { sum += widened(values.values[lane]); });
    });
    const A mean = block_sum(sum) / A(columns);
    A squares = 0;
    for_each_in_row<T>(columns, packed, [&](const Lanes& lanes) {
      const Pack<T> values = load(in, lanes);
      for_each_lane<T>(lanes, [&](int lane) {
        const A distance = widened(values.values[lane]) - mean;
        squares += distance * distance;
      });
    });
    const A reciprocal = A(1) / sqrt(block_sum(squares) / A(columns) + epsilon);
    if (threadIdx.x == 0) deviation[row] = reciprocal;
    for_each_in_row<T>(columns, packed, [&](const Lanes& lanes) {
      const Pack<T> values = load(in, lanes);
      const Pack<T> factors = load(gamma, lanes);
      const Pack<T> shifts = load(beta, lanes);
      Pack<T> norms;
      Pack<T> results;
      for_each_lane<T>(lanes, [&](int lane) {
        const A value = (widened(values.values[lane]) - mean) * reciprocal;
        norms.values[lane] = narrowed<T>(value);
        results.values[lane] =
            narrowed<T>(value * widened(factors.values[lane]) + widened(shifts.values[lane]));
      });
      store(normalised + row * columns, lanes, norms);
      store(output + row * columns, lanes, results);
    });
  });
}

template <typename T>
void layer_norm_backward_of(const OpCall& call, const LaunchContext& context) {
  using A = Arithmetic<T>;
  const std::int64_t rows = extent(call, 3, 0);
  const std::int64_t columns = extent(call, 3, 1);
  T* grad_x = elements<T>(call, 0);
  const T* grad_output = elements<T>(call, 3);
  const T* normalised = elements<T>(call, 4);
  const A* deviation = elements<A>(call, 5);
  const T* gamma = elements<T>(call, 6);
  const T* residual = elements<T>(call, 7);
  const bool packed = columns % pack_size<T> == 0 &&
                      on_pack_borders(grad_x, grad_output, normalised, gamma, residual);
  const auto grad_of_row = [=] __device__(std::int64_t row) {
    A sum = 0;
    A product = 0;
    for_each_in_row<T>(columns, packed, [&](const Lanes& lanes) {
      const Pack<T> grads = load(grad_output + row * columns, lanes);
      const Pack<T> values = load(normalised + row * columns, lanes);
      const Pack<T> factors = load(gamma, lanes);
      for_each_lane<T>(lanes, [&](int lane) {
        const A grad = widened(grads.values[lane]) * widened(factors.values[lane]);
        sum += grad;
        product += grad * widened(values.values[lane]);
      });
    });
    const A mean = block_sum(sum) / A(columns);
    const A mean_product = block_sum(product) / A(columns);
    const A reciprocal = deviation[row];
    for_each_in_row<T>(columns, packed, [&](const Lanes& lanes) {
      const Pack<T> grads = load(grad_output + row * columns, lanes);
      const Pack<T> values = load(normalised + row * columns, lanes);
      const Pack<T> factors = load(gamma, lanes);
      Pack<T> results;
      Pack<T> passed{};
      if (residual != nullptr) passed = load(residual + row * columns, lanes);
      for_each_lane<T>(lanes, [&](int lane) {
        const A grad = widened(grads.values[lane]) * widened(factors.values[lane]);
        const A value = reciprocal * (grad - mean - widened(values.values[lane]) * mean_product);
        results.values[lane] =
            narrowed<T>(residual == nullptr ? value : value + widened(passed.values[lane]));
      });
      store(grad_x + row * columns, lanes, results);
    });
  };
  const auto grads_at = [=] __device__(std::int64_t row, std::int64_t column) {
    const std::int64_t at = row * columns + column;
    const A grad = widened(grad_output[at]);
    return ColumnPair<A>{grad * widened(normalised[at]), grad};
  };
  add_column_sums_beside_rows<A>(rows, columns, elements<A>(call, 1), elements<A>(call, 2), context,
                                 grads_at, grad_of_row);
}

}  // namespace

void layer_norm_forward(const OpCall& call, const LaunchContext& context) {
  launch_typed(call, context, 0, CGCONFORM_FLOATING_KERNELS(layer_norm_forward_of));
}

void layer_norm_backward(const OpCall& call, const LaunchContext& context) {
  launch_typed(call, context, 0, CGCONFORM_FLOATING_KERNELS(layer_norm_backward_of));
}

}  // namespace cgconform::workloads::cuda

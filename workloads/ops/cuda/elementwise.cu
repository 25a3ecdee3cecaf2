#include "workloads/ops/cuda/add_bias.hpp"
#include "workloads/ops/cuda/columns.cuh"
#include "workloads/ops/cuda/kernels.hpp"
#include "workloads/ops/cuda/packs.cuh"
#include "workloads/ops/elementwise.hpp"

namespace cgconform::workloads::cuda {

namespace {

template <typename A>
__device__ A normal_density(A x) {
  constexpr A root_two_pi = A(2.5066282746310005024157652848110452530069867406099);
  return exp(A(-0.5) * x * x) / root_two_pi;
}

template <typename A>
__device__ A normal_distribution(A x) {
  constexpr A root_two = A(1.4142135623730950488016887242096980785696718753769);
  return A(0.5) * (A(1) + erf(x / root_two));
}

template <typename T>
void add_of(const OpCall& call, const LaunchContext& context) {
  using A = Arithmetic<T>;
  map(
      call.operand(0).elements(), context, elements<T>(call, 0),
      [] __device__(A a, A b) { return a + b; }, elements<T>(call, 1), elements<T>(call, 2));
}

template <typename T>
void accumulate_of(const OpCall& call, const LaunchContext& context) {
  using A = Arithmetic<T>;
  T* destination = elements<T>(call, 0);
  map(
      call.operand(0).elements(), context, destination,
      [] __device__(A sum, A value) { return sum + value; }, destination, elements<T>(call, 1));
}

template <typename T>
void scale_of(const OpCall& call, const LaunchContext& context) {
  using A = Arithmetic<T>;
  const A factor = A(call.params.as<FactorParams>().factor);
  T* x = elements<T>(call, 0);
  map(
      call.operand(0).elements(), context, x,
      [factor] __device__(A value) { return value * factor; }, x);
}

template <typename T>
void axpy_of(const OpCall& call, const LaunchContext& context) {
  using A = Arithmetic<T>;
  const A factor = A(call.params.as<FactorParams>().factor);
  T* y = elements<T>(call, 0);
  map(
      call.operand(0).elements(), context, y,
      [factor] __device__(A sum, A value) { return sum + factor * value; }, y,
      elements<T>(call, 1));
}

constexpr int biases_a_launch = 8;

/// The biases of a launch; the blocks of each come after those of the one before.
template <typename T>
struct BiasTable {
  int biases = 0;
  unsigned blocks = 0;
  unsigned first_block[biases_a_launch];
  Arithmetic<T>* grad_bias[biases_a_launch];
  const T* grad_output[biases_a_launch];
  std::int64_t rows[biases_a_launch];
  std::int64_t columns[biases_a_launch];
};

template <typename T>
__global__ void __launch_bounds__(column_warps* warp_size)
    bias_grads_kernel(const __grid_constant__ BiasTable<T> table) {
  using A = Arithmetic<T>;
  int bias = 0;
  while (bias + 1 < table.biases && blockIdx.x >= table.first_block[bias + 1]) ++bias;
  const T* grad_output = table.grad_output[bias];
  const std::int64_t columns = table.columns[bias];
  const auto grad_at = [=](std::int64_t row, std::int64_t column) {
    return ColumnPair<A>{widened(grad_output[row * columns + column]), A(0)};
  };
  A* const no_second = nullptr;
  add_sums_of_columns<column_warps>(blockIdx.x - table.first_block[bias], table.rows[bias], columns,
                                    table.grad_bias[bias], no_second, grad_at);
}

template <typename T>
void bias_grads_of(const OpCall& call, const LaunchContext& context) {
  for (std::size_t next = 0; next + 1 < call.operands.size();) {
    BiasTable<T> table;
    for (; next + 1 < call.operands.size() && table.biases < biases_a_launch; next += 2) {
      const int bias = table.biases++;
      const std::int64_t columns = call.operand(next).elements();
      table.first_block[bias] = table.blocks;
      table.blocks += column_blocks(columns);
      table.grad_bias[bias] = elements<Arithmetic<T>>(call, next);
      table.grad_output[bias] = elements<T>(call, next + 1);
      table.rows[bias] = columns == 0 ? 0 : call.operand(next + 1).elements() / columns;
      table.columns[bias] = columns;
    }
    if (table.blocks == 0) continue;
    bias_grads_kernel<<<table.blocks, column_warps * warp_size, 0, context.stream>>>(table);
  }
}

template <typename T>
void add_bias_to(const TensorView& x_tensor, const TensorView& bias_tensor,
                 const LaunchContext& context) {
  T* x = static_cast<T*>(x_tensor.data);
  const T* bias = static_cast<const T*>(bias_tensor.data);
  const std::int64_t columns = bias_tensor.elements();
  const bool packed = on_pack_borders(x, bias) && columns % pack_size<T> == 0;
  for_each_pack<T>(x_tensor.elements(), packed, context, [=] __device__(const Lanes& lanes) {
    Pack<T> pack = load(x, lanes);
    const Pack<T> added = load(bias, Lanes{lanes.first % columns, lanes.count});
    for_each_lane<T>(lanes, [&](int lane) {
      pack.values[lane] = narrowed<T>(widened(pack.values[lane]) + widened(added.values[lane]));
    });
    store(x, lanes, pack);
  });
}

template <typename T>
void add_bias_of(const OpCall& call, const LaunchContext& context) {
  add_bias_to<T>(call.operand(0), call.operand(1), context);
}

template <typename T>
void gelu_forward_of(const OpCall& call, const LaunchContext& context) {
  using A = Arithmetic<T>;
  map(
      call.operand(0).elements(), context, elements<T>(call, 0),
      [] __device__(A x) { return x * normal_distribution(x); }, elements<T>(call, 1));
}

template <typename T>
void gelu_backward_of(const OpCall& call, const LaunchContext& context) {
  using A = Arithmetic<T>;
  map(
      call.operand(0).elements(), context, elements<T>(call, 0),
      [] __device__(A grad, A x) {
        return grad * (normal_distribution(x) + x * normal_density(x));
      },
      elements<T>(call, 1), elements<T>(call, 2));
}

template <typename Destination, typename Source>
void cast_between(const OpCall& call, const LaunchContext& context) {
  auto* destination = elements<Destination>(call, 0);
  const auto* source = elements<Source>(call, 1);
  for_each(call.operand(0).elements(), context, [=] __device__(std::int64_t i) {
    destination[i] =
        narrowed<Destination>(static_cast<Arithmetic<Destination>>(widened(source[i])));
  });
}

template <typename Source>
void cast_from(const OpCall& call, const LaunchContext& context) {
  launch_typed(call, context, 0, cast_between<float, Source>, cast_between<double, Source>,
               cast_between<__nv_bfloat16, Source>, cast_between<__half, Source>);
}

}  // namespace

void add(const OpCall& call, const LaunchContext& context) {
  launch_typed(call, context, 0, CGCONFORM_FLOATING_KERNELS(add_of));
}

void accumulate(const OpCall& call, const LaunchContext& context) {
  launch_typed(call, context, 0, CGCONFORM_FLOATING_KERNELS(accumulate_of));
}

void scale(const OpCall& call, const LaunchContext& context) {
  launch_typed(call, context, 0, CGCONFORM_FLOATING_KERNELS(scale_of));
}

void axpy(const OpCall& call, const LaunchContext& context) {
  launch_typed(call, context, 0, CGCONFORM_FLOATING_KERNELS(axpy_of));
}

void add_bias(const OpCall& call, const LaunchContext& context) {
  launch_typed(call, context, 0, CGCONFORM_FLOATING_KERNELS(add_bias_of));
}

void add_bias_in_place(const TensorView& x, const TensorView& bias, const LaunchContext& context) {
  add_bias_to<double>(x, bias, context);
}

void add_in_place(const TensorView& x, const TensorView& added, const LaunchContext& context) {
  auto* sum = static_cast<double*>(x.data);
  map(
      x.elements(), context, sum, [] __device__(double a, double b) { return a + b; },
      static_cast<const double*>(sum), static_cast<const double*>(added.data));
}

void bias_grad(const OpCall& call, const LaunchContext& context) {
  bias_grads(call, context);
}

void bias_grads(const OpCall& call, const LaunchContext& context) {
  launch_typed(call, context, 1, CGCONFORM_FLOATING_KERNELS(bias_grads_of));
}

void gelu_forward(const OpCall& call, const LaunchContext& context) {
  launch_typed(call, context, 0, CGCONFORM_FLOATING_KERNELS(gelu_forward_of));
}

void gelu_backward(const OpCall& call, const LaunchContext& context) {
  launch_typed(call, context, 0, CGCONFORM_FLOATING_KERNELS(gelu_backward_of));
}

void cast(const OpCall& call, const LaunchContext& context) {
  launch_typed(call, context, 1, CGCONFORM_FLOATING_KERNELS(cast_from));
}

}  // namespace cgconform::workloads::cuda

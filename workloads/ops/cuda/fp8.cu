#include <cuda_fp8.h>

#include "workloads/ops/cuda/gemm_engine.hpp"
#include "workloads/ops/cuda/kernels.hpp"
#include "workloads/ops/cuda/launch.cuh"
#include "workloads/ops/fp8.hpp"

namespace cgconform::workloads::cuda {

namespace {

__device__ std::uint8_t quantised_bits(float value, EightBitFormat format) {
  return __nv_cvt_float_to_fp8(value, __NV_SATFINITE,
                               format == EightBitFormat::e4m3 ? __NV_E4M3 : __NV_E5M2);
}

__device__ float value_of_bits(std::uint8_t bits, EightBitFormat format) {
  const __half_raw half =
      __nv_cvt_fp8_to_halfraw(bits, format == EightBitFormat::e4m3 ? __NV_E4M3 : __NV_E5M2);
  return __half2float(__half(half));
}

/// The larger of two magnitudes; what is no number counts for nothing, as in the reference.
__device__ float larger_magnitude(float largest, float value) {
  const float magnitude = fabsf(value);
  return magnitude > largest ? magnitude : largest;
}

template <typename T>
__device__ float block_amax(const T* x, std::int64_t count, float least) {
  float largest = least;
  for (std::int64_t i = threadIdx.x; i < count; i += blockDim.x) {
    largest = larger_magnitude(largest, static_cast<float>(widened(x[i])));
  }
  return block_max(largest);
}

/// Writes the scale by the largest magnitude, `most` being the largest number of the format.
__device__ void put_scale(float* scale, float* descale, float amax, float most) {
  const float wanted = most / amax;
  const float now = amax > 0.0F && isfinite(amax) && isfinite(wanted) ? wanted : 1.0F;
  *scale = now;
  *descale = 1.0F / now;
}

/// Quantises where `cached` is null or points to zero.
template <typename T>
void quantise(const OpCall& call, const LaunchContext& context, const float* cached) {
  const EightBitFormat format = call.params.as<QuantiseParams>().format;
  auto* quantised = elements<std::uint8_t>(call, 0);
  auto* transposed = elements<std::uint8_t>(call, 1);
  float* amax = elements<float>(call, 2);
  const T* x = elements<T>(call, 3);
  const float* scale = elements<const float>(call, 4);
  const std::int64_t rows = extent(call, 3, 0);
  const std::int64_t columns = extent(call, 3, 1);
  for_each(rows * columns, context, [=] __device__(std::int64_t i) {
    if (cached != nullptr && *cached != 0.0F) return;
    const std::uint8_t bits = quantised_bits(static_cast<float>(widened(x[i])) * *scale, format);
    quantised[i] = bits;
    transposed[i % columns * rows + i / columns] = bits;
  });
  if (amax == nullptr) return;
  for_each_row(1, context, [=] __device__(std::int64_t) {
    if (cached != nullptr && *cached != 0.0F) return;
    const float largest = block_amax(x, rows * columns, *amax);
    if (threadIdx.x == 0) *amax = largest;
  });
}

template <typename T>
void quantise_of(const OpCall& call, const LaunchContext& context) {
  quantise<T>(call, context, nullptr);
}

template <typename T>
void quantise_weight_of(const OpCall& call, const LaunchContext& context) {
  const float* cached = elements<const float>(call, 5);
  float* refreshes = elements<float>(call, 6);
  quantise<T>(call, context, cached);
  if (refreshes == nullptr) return;
  for_each(1, context, [=] __device__(std::int64_t) {
    if (*cached == 0.0F) *refreshes += 1.0F;
  });
}

template <typename T>
void current_scale_of(const OpCall& call, const LaunchContext& context) {
  const float most = eight_bit::layout_of(call.params.as<QuantiseParams>().format).largest;
  float* scale = elements<float>(call, 0);
  float* descale = elements<float>(call, 1);
  const T* x = elements<T>(call, 2);
  const std::int64_t count = call.operand(2).elements();
  const float* cached = elements<const float>(call, 3);
  for_each_row(1, context, [=] __device__(std::int64_t) {
    if (cached != nullptr && *cached != 0.0F) return;
    const float amax = block_amax(x, count, 0.0F);
    if (threadIdx.x != 0) return;
    put_scale(scale, descale, amax, most);
  });
}

template <typename T>
void amax_of(const OpCall& call, const LaunchContext& context) {
  float* amax = elements<float>(call, 0);
  const T* x = elements<T>(call, 1);
  const std::int64_t count = call.operand(1).elements();
  for_each_row(1, context, [=] __device__(std::int64_t) {
    const float largest = block_amax(x, count, *amax);
    if (threadIdx.x == 0) *amax = largest;
  });
}

/// A thread an element, summed up in ascending k as the reference does it: for extents and devices
/// that cuBLASLt does not multiply.
template <typename T, bool Accumulates>
void multiply_of(const OpCall& call, const LaunchContext& context) {
  using A = Arithmetic<T>;
  const auto params = call.params.as<Fp8GemmParams>();
  T* c = elements<T>(call, 0);
  const auto* a = elements<const std::uint8_t>(call, 1);
  const auto* b = elements<const std::uint8_t>(call, 2);
  const float* descale_a = elements<const float>(call, 3);
  const float* descale_b = elements<const float>(call, 4);
  for_each(std::int64_t{params.m} * params.n, context, [=] __device__(std::int64_t element) {
    const std::uint8_t* row = a + element / params.n * params.k;
    const std::uint8_t* column = b + element % params.n * params.k;
    float sum = 0.0F;
    for (std::int32_t i = 0; i < params.k; ++i) {
      sum += value_of_bits(row[i], params.format_a) * value_of_bits(column[i], params.format_b);
    }
    const A product = static_cast<A>(sum * (*descale_a * *descale_b));
    c[element] = narrowed<T>(Accumulates ? widened(c[element]) + product : product);
  });
}

template <typename T>
void gemm_of(const OpCall& call, const LaunchContext& context) {
  multiply_of<T, false>(call, context);
}

template <typename T>
void gemm_accumulate_of(const OpCall& call, const LaunchContext& context) {
  multiply_of<T, true>(call, context);
}

/// True where cuBLASLt has multiplied.
bool multiplied(const OpCall& call, const LaunchContext& context, bool accumulates) {
  return context.gemm->multiply(call.params.as<Fp8GemmParams>(),
                                {.c = call.operand(0),
                                 .a = call.operand(1),
                                 .b = call.operand(2),
                                 .descale_a = call.operand(3),
                                 .descale_b = call.operand(4)},
                                accumulates, context.stream);
}

}  // namespace

void fp8_quantise(const OpCall& call, const LaunchContext& context) {
  launch_typed(call, context, 3, CGCONFORM_FLOATING_KERNELS(quantise_of));
}

void fp8_quantise_weight(const OpCall& call, const LaunchContext& context) {
  launch_typed(call, context, 3, CGCONFORM_FLOATING_KERNELS(quantise_weight_of));
}

void fp8_current_scale(const OpCall& call, const LaunchContext& context) {
  launch_typed(call, context, 2, CGCONFORM_FLOATING_KERNELS(current_scale_of));
}

void fp8_amax(const OpCall& call, const LaunchContext& context) {
  launch_typed(call, context, 1, CGCONFORM_FLOATING_KERNELS(amax_of));
}

void fp8_scale_of_amax(const OpCall& call, const LaunchContext& context) {
  const float most = eight_bit::layout_of(call.params.as<QuantiseParams>().format).largest;
  float* scale = elements<float>(call, 0);
  float* descale = elements<float>(call, 1);
  const float* amax = elements<const float>(call, 2);
  for_each(1, context, [=] __device__(std::int64_t) { put_scale(scale, descale, *amax, most); });
}

void fp8_update_scales(const OpCall& call, const LaunchContext& context) {
  const auto params = call.params.as<UpdateScalesParams>();
  float* scale = elements<float>(call, 0);
  float* descale = elements<float>(call, 1);
  float* history = elements<float>(call, 2);
  float* newest = elements<float>(call, 3);
  float* updates = elements<float>(call, 4);
  const float* largest = elements<const float>(call, 5);
  const std::int64_t stride = extent(call, 1, 1);
  const std::int64_t steps = extent(call, 2, 0);
  for_each(params.count, context, [=] __device__(std::int64_t i) {
    const std::int64_t tensor = params.first + i;
    newest[tensor] = history[tensor];
    float amax = 0.0F;
    for (std::int64_t step = 0; step < (params.most_recent ? 1 : steps); ++step) {
      amax = larger_magnitude(amax, history[step * params.tensors + tensor]);
    }
    const float wanted = largest[tensor] / (params.headroom * amax);
    if (amax > 0.0F && isfinite(amax) && isfinite(wanted)) scale[tensor] = wanted;
    descale[tensor * stride] = 1.0F / scale[tensor];
    for (std::int64_t step = steps - 1; step > 0; --step) {
      history[step * params.tensors + tensor] = history[(step - 1) * params.tensors + tensor];
    }
    history[tensor] = 0.0F;
    if (i == 0) *updates += 1.0F;
  });
}

void fp8_gemm(const OpCall& call, const LaunchContext& context) {
  if (multiplied(call, context, false)) return;
  launch_typed(call, context, 0, CGCONFORM_FLOATING_KERNELS(gemm_of));
}

void fp8_gemm_accumulate(const OpCall& call, const LaunchContext& context) {
  if (multiplied(call, context, true)) return;
  launch_typed(call, context, 0, CGCONFORM_FLOATING_KERNELS(gemm_accumulate_of));
}

}  // namespace cgconform::workloads::cuda

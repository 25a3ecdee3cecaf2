#include "workloads/ops/cuda/kernels.hpp"
#include "workloads/ops/cuda/launch.cuh"
#include "workloads/ops/verification.hpp"

namespace cgconform::workloads::cuda {

namespace {

__device__ std::uint64_t mix(std::uint64_t value) {
  value ^= value >> 30;
  value *= 0xBF58476D1CE4E5B9ULL;
  value ^= value >> 27;
  value *= 0x94D049BB133111EBULL;
  return value ^ (value >> 31);
}

/// Integer additions commute, so the sum does not depend on the order of the threads.
__device__ void add_to(std::uint64_t* target, std::uint64_t value) {
  atomicAdd(reinterpret_cast<unsigned long long*>(target), static_cast<unsigned long long>(value));
}

/// Which count of CompareOutcome::ulp_histogram a distance belongs to.
__device__ int ulp_bucket(long long ulps) {
  constexpr auto limits = ulp_limits;
  int bucket = 0;
  while (bucket + 1 < static_cast<int>(limits.size()) &&
         ulps > limits[static_cast<std::size_t>(bucket)]) {
    ++bucket;
  }
  return bucket;
}

/// Non-negative doubles are ordered as their bit patterns.
__device__ void raise_to(double* target, double value) {
  atomicMax(reinterpret_cast<long long*>(target), __double_as_longlong(value));
}

template <typename T>
struct BitsOf;
template <>
struct BitsOf<float> {
  using Type = std::int32_t;
  static __device__ Type get(float value) { return __float_as_int(value); }
};
template <>
struct BitsOf<double> {
  using Type = long long;
  static __device__ Type get(double value) { return __double_as_longlong(value); }
};

template <>
struct BitsOf<__nv_bfloat16> {
  using Type = std::int16_t;
  static __device__ Type get(__nv_bfloat16 value) { return __bfloat16_as_short(value); }
};
template <>
struct BitsOf<__half> {
  using Type = std::int16_t;
  static __device__ Type get(__half value) { return __half_as_short(value); }
};

/// The value as a double; integers may be rounded.
template <typename T>
__device__ double number(T value) {
  return static_cast<double>(widened(value));
}

template <typename T>
constexpr bool is_floating = is_sixteen_bit<T>;
template <>
constexpr bool is_floating<float> = true;
template <>
constexpr bool is_floating<double> = true;

template <typename T>
__device__ long long ulp_distance(T a, T b) {
  constexpr long long largest = 0x7FFFFFFFFFFFFFFFLL;
  using Bits = typename BitsOf<T>::Type;
  constexpr long long lowest = static_cast<long long>(~0ULL << (sizeof(Bits) * 8 - 1));
  const long long raw_a = BitsOf<T>::get(a);
  const long long raw_b = BitsOf<T>::get(b);
  const long long left = raw_a < 0 ? lowest - raw_a : raw_a;
  const long long right = raw_b < 0 ? lowest - raw_b : raw_b;
  if ((left < 0) != (right < 0)) {
    const unsigned long long span = static_cast<unsigned long long>(left < 0 ? -left : left) +
                                    static_cast<unsigned long long>(right < 0 ? -right : right);
    return span > static_cast<unsigned long long>(largest) ? largest : static_cast<long long>(span);
  }
  return left < right ? right - left : left - right;
}

template <typename T>
__device__ bool same_bits(T a, T b) {
  if constexpr (is_floating<T>) {
    return BitsOf<T>::get(a) == BitsOf<T>::get(b);
  } else {
    return a == b;
  }
}

template <typename T>
__device__ bool is_close(T expected, T actual, const CompareParams& params) {
  if constexpr (is_floating<T>) {
    const double wanted = number(expected);
    const double seen = number(actual);
    if (isnan(wanted) || isnan(seen)) return isnan(wanted) && isnan(seen);
    if (isinf(wanted) || isinf(seen)) return wanted == seen;
    return fabs(seen - wanted) <= params.absolute + params.relative * fabs(wanted);
  } else {
    return expected == actual;
  }
}

/// Tensors up to so many elements are compared in one launch.
constexpr std::int64_t elements_of_one_block = 16384;

__device__ void begin_outcome(CompareOutcome* outcome, std::int64_t count) {
  *outcome = CompareOutcome{};
  outcome->element_count = count;
  outcome->first_bad_index = 0x7FFFFFFFFFFFFFFFLL;
}

template <typename T>
__device__ void end_outcome(CompareOutcome* outcome, const T* expected, const T* actual) {
  if (outcome->bad_count == 0) {
    outcome->first_bad_index = -1;
    return;
  }
  outcome->expected = number(expected[outcome->first_bad_index]);
  outcome->actual = number(actual[outcome->first_bad_index]);
}

template <typename T>
void compare_elements(const OpCall& call, const LaunchContext& context) {
  const auto params = call.params.as<CompareParams>();
  const T* expected = elements<T>(call, 1);
  const T* actual = elements<T>(call, 2);
  auto* outcome = static_cast<CompareOutcome*>(call.operand(0).data);
  const std::int64_t count = call.operand(1).elements();
  const auto compare_one = [=] __device__(std::int64_t i) {
    const T want = expected[i];
    const T got = actual[i];
    if (params.bitwise ? same_bits(want, got) : is_close(want, got, params)) return;
    add_to(reinterpret_cast<std::uint64_t*>(&outcome->bad_count), 1);
    atomicMin(reinterpret_cast<long long*>(&outcome->first_bad_index), static_cast<long long>(i));
    const double wanted = number(want);
    const double seen = number(got);
    double difference = fabs(seen - wanted);
    if (isnan(difference)) difference = __longlong_as_double(0x7FF0000000000000LL);
    raise_to(&outcome->max_abs, difference);
    const double relative = wanted == 0.0 && difference == 0.0 ? 0.0 : difference / fabs(wanted);
    raise_to(&outcome->max_rel, isnan(relative) ? difference : relative);
    if constexpr (is_floating<T>) {
      if (isnan(wanted) != isnan(seen)) {
        add_to(reinterpret_cast<std::uint64_t*>(&outcome->nan_mismatch_count), 1);
      }
      if (!isnan(wanted) && !isnan(seen)) {
        const long long ulps = ulp_distance(want, got);
        atomicMax(reinterpret_cast<long long*>(&outcome->max_ulp), ulps);
        add_to(reinterpret_cast<std::uint64_t*>(outcome->ulp_histogram.data() + ulp_bucket(ulps)),
               1);
      }
    }
  };
  if (count <= elements_of_one_block) {
    for_each_row(1, context, [=] __device__(std::int64_t) {
      if (threadIdx.x == 0) begin_outcome(outcome, count);
      __syncthreads();
      for (std::int64_t i = threadIdx.x; i < count; i += blockDim.x) compare_one(i);
      __syncthreads();
      if (threadIdx.x == 0) end_outcome(outcome, expected, actual);
    });
    return;
  }
  for_each(1, context, [=] __device__(std::int64_t) { begin_outcome(outcome, count); });
  for_each(count, context, compare_one);
  for_each(1, context, [=] __device__(std::int64_t) { end_outcome(outcome, expected, actual); });
}

}  // namespace

void checksum(const OpCall& call, const LaunchContext& context) {
  auto* cell = elements<std::uint64_t>(call, 0);
  const auto* bytes = elements<std::uint8_t>(call, 1);
  const std::int64_t count = call.operand(1).bytes();
  for_each(1, context,
           [=] __device__(std::int64_t) { *cell = mix(static_cast<std::uint64_t>(count)); });
  for_each((count + 7) / 8, context, [=] __device__(std::int64_t index) {
    std::uint64_t word = 0;
    for (std::int64_t byte = 0; byte < 8 && index * 8 + byte < count; ++byte) {
      word |= static_cast<std::uint64_t>(bytes[index * 8 + byte]) << (8 * byte);
    }
    add_to(cell, mix(word ^ mix(static_cast<std::uint64_t>(index + 1))));
  });
}

void compare(const OpCall& call, const LaunchContext& context) {
  switch (call.operand(1).dtype) {
    case DType::fp32:
      return compare_elements<float>(call, context);
    case DType::fp64:
      return compare_elements<double>(call, context);
    case DType::int32:
      return compare_elements<std::int32_t>(call, context);
    case DType::int64:
      return compare_elements<std::int64_t>(call, context);
    case DType::uint64:
      return compare_elements<std::uint64_t>(call, context);
    case DType::uint8:
      return compare_elements<std::uint8_t>(call, context);
    case DType::bf16:
      return compare_elements<__nv_bfloat16>(call, context);
    case DType::fp16:
      return compare_elements<__half>(call, context);
  }
}

}  // namespace cgconform::workloads::cuda

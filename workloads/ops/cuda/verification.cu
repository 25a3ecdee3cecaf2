#include <cmath>

#include "workloads/ops/cuda/kernels.hpp"
#include "workloads/ops/cuda/packs.cuh"
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
__device__ void compare_one(std::int64_t i, T want, T got, const CompareParams& params,
                            CompareOutcome* outcome) {
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
      add_to(reinterpret_cast<std::uint64_t*>(outcome->ulp_histogram.data() + ulp_bucket(ulps)), 1);
    }
  }
}

/// Tensors of one launch; they are in its parameters, which may take 4 KiB.
constexpr int tensors_a_launch = 128;

/// How a launch's blocks are dealt out: those of a tensor follow those of the one before.
struct BlockShares {
  int tensors = 0;
  int end_block[tensors_a_launch];

  void add(std::int64_t items, std::int64_t items_a_block) {
    constexpr std::int64_t most_blocks = 512;
    const std::int64_t wanted = (items + items_a_block - 1) / items_a_block;
    end_block[tensors] = blocks() + static_cast<int>(wanted < most_blocks ? wanted : most_blocks);
    ++tensors;
  }
  int blocks() const { return tensors == 0 ? 0 : end_block[tensors - 1]; }
  bool full() const { return tensors == tensors_a_launch; }
};

/// A block's part of its tensor: every `stride`th item from `first` on, for this thread.
struct Share {
  int tensor = 0;
  std::int64_t first = 0;
  std::int64_t stride = 0;
};

__device__ Share share_of_thread(const BlockShares& shares) {
  const int block = static_cast<int>(blockIdx.x);
  int tensor = 0;
  for (int above = shares.tensors - 1; tensor < above;) {
    const int middle = (tensor + above) / 2;
    if (block < shares.end_block[middle]) {
      above = middle;
    } else {
      tensor = middle + 1;
    }
  }
  const int first_block = tensor == 0 ? 0 : shares.end_block[tensor - 1];
  return {tensor, std::int64_t{block - first_block} * blockDim.x + threadIdx.x,
          std::int64_t{shares.end_block[tensor] - first_block} * blockDim.x};
}

/// Packs of 16 bytes that a thread has on their way from memory at a time, of each tensor.
constexpr int packs_at_once = 4;
/// A block takes two turns, so that looking up its tensor costs little.
constexpr std::int64_t bytes_a_block = 2 * threads_per_block * packs_at_once * 16;

template <typename T>
struct PairTable {
  BlockShares shares;
  bool equal_is_close = true;  ///< what is equal bit for bit has nothing to tell
  CompareOutcome* outcomes = nullptr;
  const T* expected[tensors_a_launch];
  const T* actual[tensors_a_launch];
  std::int64_t elements[tensors_a_launch];
};

/// Compares the elements of a pack, reading them again: a pack seldom comes here.
template <typename T>
__device__ void compare_pack(std::int64_t pack, const T* expected, const T* actual,
                             const CompareParams& params, CompareOutcome* outcome) {
  const std::int64_t first = pack * pack_size<T>;
#pragma unroll 1
  for (std::int64_t i = first; i < first + pack_size<T>; ++i) {
    compare_one(i, expected[i], actual[i], params, outcome);
  }
}

__device__ bool differ(const uint4& a, const uint4& b) {
  return ((a.x ^ b.x) | (a.y ^ b.y) | (a.z ^ b.z) | (a.w ^ b.w)) != 0;
}

/// Compares the elements of those packs that differ in any bit.
template <typename T>
__device__ void compare_packs(const Share& share, std::int64_t packs, const T* expected,
                              const T* actual, const CompareParams& params,
                              CompareOutcome* outcome) {
  const auto* expected_packs = reinterpret_cast<const uint4*>(expected);
  const auto* actual_packs = reinterpret_cast<const uint4*>(actual);
  for (std::int64_t first = share.first; first < packs; first += packs_at_once * share.stride) {
    uint4 wanted[packs_at_once] = {};
    uint4 seen[packs_at_once] = {};
#pragma unroll
    for (int i = 0; i < packs_at_once; ++i) {
      const std::int64_t pack = first + i * share.stride;
      if (pack >= packs) continue;
      wanted[i] = expected_packs[pack];
      seen[i] = actual_packs[pack];
    }
    unsigned different = 0;
#pragma unroll
    for (int i = 0; i < packs_at_once; ++i) {
      if (differ(wanted[i], seen[i])) different |= 1U << i;
    }
    for (; different != 0; different &= different - 1) {
      const int i = __ffs(static_cast<int>(different)) - 1;
      compare_pack(first + i * share.stride, expected, actual, params, outcome);
    }
  }
}

template <typename T>
__global__ void __launch_bounds__(threads_per_block)
    compare_pairs_kernel(const __grid_constant__ PairTable<T> table, CompareParams params) {
  const Share share = share_of_thread(table.shares);
  const T* expected = table.expected[share.tensor];
  const T* actual = table.actual[share.tensor];
  const std::int64_t elements = table.elements[share.tensor];
  CompareOutcome* outcome = table.outcomes + share.tensor;
  std::int64_t done = 0;
  if (table.equal_is_close && on_pack_borders(expected, actual)) {
    const std::int64_t packs = elements / pack_size<T>;
    compare_packs(share, packs, expected, actual, params, outcome);
    done = packs * pack_size<T>;
  }
  for (std::int64_t i = done + share.first; i < elements; i += share.stride) {
    compare_one(i, expected[i], actual[i], params, outcome);
  }
}

template <typename T>
__global__ void begin_outcomes_kernel(const __grid_constant__ PairTable<T> table) {
  const int pair = static_cast<int>(threadIdx.x);
  if (pair < table.shares.tensors) begin_outcome(table.outcomes + pair, table.elements[pair]);
}

template <typename T>
__global__ void end_outcomes_kernel(const __grid_constant__ PairTable<T> table) {
  const int pair = static_cast<int>(threadIdx.x);
  if (pair < table.shares.tensors) {
    end_outcome(table.outcomes + pair, table.expected[pair], table.actual[pair]);
  }
}

/// Negative tolerances, and products of infinity and 0, make an element differ from itself.
bool equal_is_close(const CompareParams& params) {
  return params.bitwise ||
         (params.absolute >= 0.0 && params.relative >= 0.0 && std::isfinite(params.relative));
}

/// Compares the pairs from `first` on, as many as a table holds; returns how many.
template <typename T>
int compare_some(const OpCall& call, std::size_t first, const LaunchContext& context) {
  const auto params = call.params.as<CompareParams>();
  PairTable<T> table;
  table.equal_is_close = equal_is_close(params);
  table.outcomes = static_cast<CompareOutcome*>(call.operand(0).data) + first;
  for (std::size_t index = 1 + 2 * first; index + 1 < call.operands.size() && !table.shares.full();
       index += 2) {
    const int pair = table.shares.tensors;
    table.expected[pair] = elements<T>(call, index);
    table.actual[pair] = elements<T>(call, index + 1);
    table.elements[pair] = call.operand(index).elements();
    table.shares.add(call.operand(index).bytes(), bytes_a_block);
  }
  begin_outcomes_kernel<<<1, tensors_a_launch, 0, context.stream>>>(table);
  if (const int blocks = table.shares.blocks(); blocks > 0) {
    compare_pairs_kernel<<<static_cast<unsigned>(blocks), threads_per_block, 0, context.stream>>>(
        table, params);
  }
  end_outcomes_kernel<<<1, tensors_a_launch, 0, context.stream>>>(table);
  return table.shares.tensors;
}

template <typename T>
void compare_all(const OpCall& call, const LaunchContext& context) {
  const std::size_t pairs = (call.operands.size() - 1) / 2;
  for (std::size_t first = 0; first < pairs;) {
    first += static_cast<std::size_t>(compare_some<T>(call, first, context));
  }
}

struct CopyTable {
  BlockShares shares;
  std::byte* destinations[tensors_a_launch];
  const std::byte* sources[tensors_a_launch];
  std::int64_t bytes[tensors_a_launch];
};

/// Items of a copy are packs of 16 bytes, or single bytes where memory does not begin at such.
__global__ void copies_kernel(const __grid_constant__ CopyTable table) {
  const Share share = share_of_thread(table.shares);
  std::byte* destination = table.destinations[share.tensor];
  const std::byte* source = table.sources[share.tensor];
  const std::int64_t bytes = table.bytes[share.tensor];
  constexpr std::int64_t pack = sizeof(uint4);
  const auto borders =
      reinterpret_cast<std::uintptr_t>(destination) | reinterpret_cast<std::uintptr_t>(source);
  std::int64_t done = 0;
  if (borders % pack == 0) {
    done = bytes / pack * pack;
    for (std::int64_t i = share.first; i < bytes / pack; i += share.stride) {
      reinterpret_cast<uint4*>(destination)[i] = reinterpret_cast<const uint4*>(source)[i];
    }
  }
  for (std::int64_t i = done + share.first; i < bytes; i += share.stride) {
    destination[i] = source[i];
  }
}

struct SourceTable {
  BlockShares shares;
  std::uint64_t* cells = nullptr;
  const std::uint8_t* sources[tensors_a_launch];
  std::int64_t bytes[tensors_a_launch];
};

__global__ void begin_checksums_kernel(const __grid_constant__ SourceTable table) {
  const int source = static_cast<int>(threadIdx.x);
  if (source < table.shares.tensors) {
    table.cells[source] = mix(static_cast<std::uint64_t>(table.bytes[source]));
  }
}

__device__ std::uint64_t mix_at(std::int64_t index, std::uint64_t word) {
  return mix(word ^ mix(static_cast<std::uint64_t>(index + 1)));
}

/// The word at `index` of `count` bytes, with zeros after the last.
__device__ std::uint64_t word_at(const std::uint8_t* bytes, std::int64_t count,
                                 std::int64_t index) {
  const std::int64_t first = index * 8;
  if (reinterpret_cast<std::uintptr_t>(bytes) % 8 == 0 && first + 8 <= count) {
    return *reinterpret_cast<const std::uint64_t*>(bytes + first);
  }
  std::uint64_t word = 0;
  for (std::int64_t byte = 0; byte < 8 && first + byte < count; ++byte) {
    word |= static_cast<std::uint64_t>(bytes[first + byte]) << (8 * byte);
  }
  return word;
}

/// This thread's part of the sum over the words of whole packs.
__device__ std::uint64_t mix_packs(const Share& share, std::int64_t packs,
                                   const std::uint8_t* bytes) {
  const auto* words = reinterpret_cast<const ulonglong2*>(bytes);
  // Few, so that there is room for many threads, which mix while others read.
  constexpr int pairs_at_once = 2;
  std::uint64_t sum = 0;
  for (std::int64_t first = share.first; first < packs; first += pairs_at_once * share.stride) {
    ulonglong2 pairs[pairs_at_once] = {};
#pragma unroll
    for (int i = 0; i < pairs_at_once; ++i) {
      const std::int64_t pack = first + i * share.stride;
      if (pack < packs) pairs[i] = words[pack];
    }
#pragma unroll
    for (int i = 0; i < pairs_at_once; ++i) {
      const std::int64_t pack = first + i * share.stride;
      if (pack < packs) sum += mix_at(2 * pack, pairs[i].x) + mix_at(2 * pack + 1, pairs[i].y);
    }
  }
  return sum;
}

__global__ void __launch_bounds__(threads_per_block)
    checksums_kernel(const __grid_constant__ SourceTable table) {
  const Share share = share_of_thread(table.shares);
  const std::uint8_t* bytes = table.sources[share.tensor];
  const std::int64_t count = table.bytes[share.tensor];
  const std::int64_t packs = on_pack_borders(bytes) ? count / 16 : 0;
  std::uint64_t sum = mix_packs(share, packs, bytes);
  for (std::int64_t index = 2 * packs + share.first; index * 8 < count; index += share.stride) {
    sum += mix_at(index, word_at(bytes, count, index));
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) add_to(table.cells + share.tensor, sum);
}

}  // namespace

void copies(const OpCall& call, const LaunchContext& context) {
  constexpr std::int64_t packs_a_block = 1024;
  constexpr std::int64_t pack = sizeof(uint4);
  for (std::size_t next = 0; next + 1 < call.operands.size();) {
    CopyTable table;
    for (; next + 1 < call.operands.size() && !table.shares.full(); next += 2) {
      const int copy = table.shares.tensors;
      table.destinations[copy] = elements<std::byte>(call, next);
      table.sources[copy] = elements<std::byte>(call, next + 1);
      table.bytes[copy] = call.operand(next).bytes();
      table.shares.add((table.bytes[copy] + pack - 1) / pack, packs_a_block);
    }
    const int blocks = table.shares.blocks();
    if (blocks == 0) continue;
    copies_kernel<<<static_cast<unsigned>(blocks), threads_per_block, 0, context.stream>>>(table);
  }
}

void checksum(const OpCall& call, const LaunchContext& context) {
  checksums(call, context);
}

void checksums(const OpCall& call, const LaunchContext& context) {
  for (std::size_t next = 1; next < call.operands.size();) {
    SourceTable table;
    table.cells = elements<std::uint64_t>(call, 0) + (next - 1);
    for (; next < call.operands.size() && !table.shares.full(); ++next) {
      const int source = table.shares.tensors;
      table.sources[source] = elements<std::uint8_t>(call, next);
      table.bytes[source] = call.operand(next).bytes();
      table.shares.add(table.bytes[source], bytes_a_block);
    }
    begin_checksums_kernel<<<1, tensors_a_launch, 0, context.stream>>>(table);
    if (const int blocks = table.shares.blocks(); blocks > 0) {
      checksums_kernel<<<static_cast<unsigned>(blocks), threads_per_block, 0, context.stream>>>(
          table);
    }
  }
}

void compare(const OpCall& call, const LaunchContext& context) {
  compare_pairs(call, context);
}

void compare_pairs(const OpCall& call, const LaunchContext& context) {
  switch (call.operand(1).dtype) {
    case DType::fp32:
      return compare_all<float>(call, context);
    case DType::fp64:
      return compare_all<double>(call, context);
    case DType::int32:
      return compare_all<std::int32_t>(call, context);
    case DType::int64:
      return compare_all<std::int64_t>(call, context);
    case DType::uint64:
      return compare_all<std::uint64_t>(call, context);
    case DType::uint8:
      return compare_all<std::uint8_t>(call, context);
    case DType::bf16:
      return compare_all<__nv_bfloat16>(call, context);
    case DType::fp16:
      return compare_all<__half>(call, context);
  }
}

}  // namespace cgconform::workloads::cuda

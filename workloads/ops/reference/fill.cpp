#include "workloads/ops/fill.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <span>

#include "workloads/ops/reference/kernel_access.hpp"
#include "workloads/ops/reference/kernels.hpp"
#include "workloads/rng/philox.hpp"

namespace cgconform::workloads::reference {

namespace {

template <typename T>
void set_all(const OpCall& call, T value) {
  T* output = elements<T>(call, 0);
  std::fill(output, output + call.operand(0).elements(), value);
}

template <typename T>
void set_normal(T* output, std::int64_t count, const FillNormalParams& params) {
  for (std::int64_t i = 0; i < count; ++i) {
    const auto words = philox(params.seed, params.offset, place_of(params, i));
    const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform(words[0])));
    const double normal = radius * std::cos(2.0 * std::numbers::pi * uniform(words[1]));
    const auto value = static_cast<float>(static_cast<double>(params.mean) +
                                          static_cast<double>(params.deviation) * normal);
    output[i] = static_cast<T>(value);
  }
}

}  // namespace

void fill_normal(const OpCall& call) {
  const auto params = call.params.as<FillNormalParams>();
  with_floating_type(call, 0, [&](auto type) {
    using T = decltype(type);
    set_normal(elements<T>(call, 0), call.operand(0).elements(), params);
  });
}

void fill_normal_parts(const OpCall& call) {
  const auto* parts = elements<NormalPart>(call, 1);
  const auto count = call.operand(1).bytes() / static_cast<std::int64_t>(sizeof(NormalPart));
  with_floating_type(call, 0, [&](auto type) {
    using T = decltype(type);
    const std::int64_t elements_in_all = call.operand(0).elements();
    for (const NormalPart& part : std::span(parts, static_cast<std::size_t>(count))) {
      // The table lies in device memory, where anything may have gone wrong with it.
      const bool inside = part.first >= 0 && part.count >= 0 && part.first <= elements_in_all &&
                          part.count <= elements_in_all - part.first;
      if (!inside) continue;
      set_normal(elements<T>(call, 0) + part.first, part.count, part.values);
    }
  });
}

void fill_uniform(const OpCall& call) {
  const auto params = call.params.as<FillUniformParams>();
  // Rounding to fp32 may reach `high`, which is excluded.
  const float largest = std::nextafter(params.high, params.low);
  with_floating_type(call, 0, [&](auto type) {
    using T = decltype(type);
    T* output = elements<T>(call, 0);
    for (std::int64_t i = 0; i < call.operand(0).elements(); ++i) {
      const auto word = philox(params.seed, params.offset, static_cast<std::uint64_t>(i))[0];
      const auto low = static_cast<double>(params.low);
      const double value = low + (static_cast<double>(params.high) - low) * uniform(word);
      output[i] = static_cast<T>(std::min(static_cast<float>(value), largest));
    }
  });
}

void fill_tokens(const OpCall& call) {
  const auto params = call.params.as<FillTokensParams>();
  auto* output = elements<std::int32_t>(call, 0);
  for (std::int64_t i = 0; i < call.operand(0).elements(); ++i) {
    const auto word = philox(params.seed, params.offset, static_cast<std::uint64_t>(i))[0];
    const std::uint64_t scaled = std::uint64_t{word} * static_cast<std::uint64_t>(params.bound);
    output[i] = static_cast<std::int32_t>(scaled >> 32);
  }
}

void poison(const OpCall& call) {
  switch (call.operand(0).dtype) {
    case DType::fp32:
      return set_all(call, std::uint32_t{0x7FC5A5A5});
    case DType::fp64:
      return set_all(call, std::uint64_t{0x7FF8A5A5A5A5A5A5});
    case DType::bf16:
      return set_all(call, std::uint16_t{0x7FE5});
    case DType::fp16:
      return set_all(call, std::uint16_t{0x7EA5});
    case DType::int32:
      return set_all(call, std::numeric_limits<std::int32_t>::min());
    case DType::int64:
      return set_all(call, std::numeric_limits<std::int64_t>::min());
    case DType::uint64:
      return set_all(call, std::uint64_t{0xA5A5A5A5A5A5A5A5});
    case DType::uint8:
      return set_all(call, std::uint8_t{0xA5});
  }
}

}  // namespace cgconform::workloads::reference

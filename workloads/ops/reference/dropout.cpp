#include "workloads/ops/dropout.hpp"

#include "workloads/ops/reference/kernel_access.hpp"
#include "workloads/ops/reference/kernels.hpp"
#include "workloads/rng/philox.hpp"

namespace cgconform::workloads::reference {

namespace {

void drop(const OpCall& call, std::uint64_t seed, std::uint64_t offset) {
  const auto params = call.params.as<DropoutParams>();
  with_floating_type(call, 0, [&](auto type) {
    using T = decltype(type);
    T* output = elements<T>(call, 0);
    auto* mask = elements<std::uint8_t>(call, 1);
    const T* x = elements<T>(call, 3);
    using A = Arithmetic<T>;
    const A scale = A{1} / (A{1} - static_cast<A>(params.probability));
    for (std::int64_t i = 0; i < call.operand(0).elements(); ++i) {
      const auto index = static_cast<std::uint64_t>(i);
      const std::uint32_t word = philox(seed, offset, index / 4)[index % 4];
      mask[i] = uniform(word) >= static_cast<double>(params.probability) ? 1 : 0;
      output[i] = mask[i] != 0 ? static_cast<T>(x[i] * scale) : T{};
    }
  });
}

}  // namespace

void dropout_forward(const OpCall& call) {
  auto* seed_and_offset = elements<std::uint64_t>(call, 2);
  drop(call, seed_and_offset[0], seed_and_offset[1]);
  seed_and_offset[1] += call.params.as<DropoutParams>().advance;
}

void dropout_by_value(const OpCall& call) {
  const auto* seed_and_offset = elements<const std::uint64_t>(call, 2);
  drop(call, seed_and_offset[0], call.params.as<DropoutParams>().offset);
}

void dropout_backward(const OpCall& call) {
  const auto probability = call.params.as<DropoutParams>().probability;
  with_floating_type(call, 0, [&](auto type) {
    using T = decltype(type);
    T* grad_x = elements<T>(call, 0);
    const T* grad_output = elements<T>(call, 1);
    const auto* mask = elements<const std::uint8_t>(call, 2);
    using A = Arithmetic<T>;
    const A scale = A{1} / (A{1} - static_cast<A>(probability));
    for (std::int64_t i = 0; i < call.operand(0).elements(); ++i) {
      grad_x[i] = mask[i] != 0 ? static_cast<T>(grad_output[i] * scale) : T{};
    }
  });
}

}  // namespace cgconform::workloads::reference

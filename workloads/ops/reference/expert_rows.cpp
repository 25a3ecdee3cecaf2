#include "workloads/ops/expert_rows.hpp"

#include <algorithm>

#include "workloads/ops/reference/kernel_access.hpp"
#include "workloads/ops/reference/kernels.hpp"

namespace cgconform::workloads::reference {

namespace {

/// True for the index of a row or place; wrong indices give wrong numbers, not wild accesses.
bool is_within(std::int64_t index, std::int64_t count) {
  return index >= 0 && index < count;
}

}  // namespace

void assign_slots(const OpCall& call) {
  const std::int64_t capacity = call.params.as<SlotParams>().capacity;
  const std::int64_t rows = extent(call, 1, 0);
  const std::int64_t count = extent(call, 4, 0);
  const std::int64_t places = call.operand(3).elements();
  auto* slots = elements<std::int32_t>(call, 0);
  auto* sources = elements<std::int32_t>(call, 1);
  auto* overflow = elements<std::int32_t>(call, 2);
  const auto* experts = elements<const std::int32_t>(call, 3);
  const auto* load = elements<const std::int32_t>(call, 4);
  std::fill(slots, slots + places, -1);
  std::fill(sources, sources + rows, -1);
  std::int64_t first = 0;
  for (std::int64_t expert = 0; expert < count; ++expert) {
    const std::int64_t room = capacity > 0 ? capacity : load[expert];
    std::int64_t taken = 0;
    for (std::int64_t place = 0; place < places; ++place) {
      if (experts[place] != expert || taken == room) continue;
      const std::int64_t row = first + taken++;
      if (!is_within(row, rows)) continue;
      slots[place] = static_cast<std::int32_t>(row);
      sources[row] = static_cast<std::int32_t>(place);
    }
    overflow[expert] = static_cast<std::int32_t>(std::max<std::int64_t>(load[expert] - room, 0));
    first += room;
  }
}

void dispatch_rows(const OpCall& call) {
  with_floating_type(call, 0, [&](auto type) {
    using T = decltype(type);
    using A = Arithmetic<T>;
    const std::int64_t top_k = call.params.as<SlotParams>().top_k;
    const std::int64_t rows = extent(call, 0, 0);
    const std::int64_t hidden = extent(call, 0, 1);
    const std::int64_t tokens = extent(call, 1, 0);
    const auto* sources = elements<const std::int32_t>(call, 2);
    const A* weights = call.operand(3).valid() ? elements<A>(call, 3) : nullptr;
    for (std::int64_t row = 0; row < rows; ++row) {
      T* output = elements<T>(call, 0) + row * hidden;
      if (!is_within(sources[row], tokens * top_k)) {
        std::fill(output, output + hidden, T{});
        continue;
      }
      const T* x = elements<T>(call, 1) + sources[row] / top_k * hidden;
      const A weight = weights == nullptr ? A{1} : weights[sources[row]];
      for (std::int64_t i = 0; i < hidden; ++i) output[i] = static_cast<T>(weight * x[i]);
    }
  });
}

void combine_rows(const OpCall& call) {
  with_floating_type(call, 0, [&](auto type) {
    using T = decltype(type);
    using A = Arithmetic<T>;
    const std::int64_t tokens = extent(call, 0, 0);
    const std::int64_t hidden = extent(call, 0, 1);
    const std::int64_t rows = extent(call, 1, 0);
    const std::int64_t top_k = extent(call, 2, 1);
    const auto* slots = elements<const std::int32_t>(call, 2);
    const A* weights = call.operand(3).valid() ? elements<A>(call, 3) : nullptr;
    for (std::int64_t token = 0; token < tokens; ++token) {
      for (std::int64_t i = 0; i < hidden; ++i) {
        A sum = 0;
        for (std::int64_t place = token * top_k; place < (token + 1) * top_k; ++place) {
          if (!is_within(slots[place], rows)) continue;
          const A weight = weights == nullptr ? A{1} : weights[place];
          sum += weight * elements<T>(call, 1)[slots[place] * hidden + i];
        }
        elements<T>(call, 0)[token * hidden + i] = static_cast<T>(sum);
      }
    }
  });
}

void combine_weights_backward(const OpCall& call) {
  with_floating_type(call, 1, [&](auto type) {
    using T = decltype(type);
    using A = Arithmetic<T>;
    const std::int64_t hidden = extent(call, 1, 1);
    const std::int64_t rows = extent(call, 2, 0);
    const std::int64_t top_k = extent(call, 3, 1);
    const auto* slots = elements<const std::int32_t>(call, 3);
    for (std::int64_t place = 0; place < call.operand(3).elements(); ++place) {
      A sum = 0;
      if (is_within(slots[place], rows)) {
        const T* grad_output = elements<T>(call, 1) + place / top_k * hidden;
        const T* row = elements<T>(call, 2) + slots[place] * hidden;
        for (std::int64_t i = 0; i < hidden; ++i) sum += grad_output[i] * row[i];
      }
      elements<A>(call, 0)[place] = sum;
    }
  });
}

}  // namespace cgconform::workloads::reference

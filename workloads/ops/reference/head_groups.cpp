#include "workloads/ops/head_groups.hpp"

#include "workloads/ops/reference/kernel_access.hpp"
#include "workloads/ops/reference/kernels.hpp"

namespace cgconform::workloads::reference {

void take_heads(const OpCall& call) {
  with_floating_type(call, 0, [&](auto type) {
    using T = decltype(type);
    const auto params = call.params.as<HeadGroupsParams>();
    T* heads = elements<T>(call, 0);
    const T* rows = elements<T>(call, 1);
    for (std::int64_t i = 0; i < call.operand(0).elements(); ++i) {
      const std::int64_t position = i / params.size % params.length;
      const std::int64_t head = i / params.size / params.length;
      const std::int64_t row = head / params.heads * params.length + position;
      const std::int64_t column = head % params.heads / params.repeat * params.size;
      heads[i] = rows[row * params.width + params.first_column + column + i % params.size];
    }
  });
}

void merge_head_groups(const OpCall& call) {
  with_floating_type(call, 0, [&](auto type) {
    using T = decltype(type);
    const auto params = call.params.as<HeadGroupsParams>();
    const std::int64_t groups = params.heads / params.repeat;
    T* rows = elements<T>(call, 0);
    for (std::int64_t i = 0; i < call.operand(0).elements(); ++i) {
      const std::int64_t row = i / params.width;
      const std::int64_t head = i % params.width / params.size;
      const bool query = head < params.heads;
      const std::int64_t other = query ? 0 : 1 + (head - params.heads) / groups;
      const std::int64_t group = query ? head : (head - params.heads) % groups;
      const std::int64_t repeat = query ? 1 : params.repeat;
      const T* heads = elements<T>(call, 1 + static_cast<std::size_t>(other));
      Arithmetic<T> sum = 0;
      for (std::int64_t copy = 0; copy < repeat; ++copy) {
        const std::int64_t from = row / params.length * params.heads + group * repeat + copy;
        const std::int64_t place = from * params.length + row % params.length;
        sum += heads[place * params.size + i % params.size];
      }
      rows[i] = static_cast<T>(sum);
    }
  });
}

}  // namespace cgconform::workloads::reference

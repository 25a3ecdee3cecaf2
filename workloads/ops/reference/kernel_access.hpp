#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "matrix/error.hpp"
#include "workloads/device/sixteen_bit.hpp"
#include "workloads/ops/op.hpp"

namespace cgconform::workloads::reference {

/// The elements of operand `index`, for a kernel that knows their type.
template <typename T>
T* elements(const OpCall& call, std::size_t index) {
  return static_cast<T*>(call.operand(index).data);
}

inline std::int64_t extent(const OpCall& call, std::size_t index, int axis) {
  return call.operand(index).shape[axis];
}

/// Calls `kernel` with a value of the operand's floating-point type. Throws InternalError for
/// types without a reference kernel.
template <typename Kernel>
void with_floating_type(const OpCall& call, std::size_t index, Kernel&& kernel) {
  switch (call.operand(index).dtype) {
    case DType::fp32:
      return kernel(float{});
    case DType::fp64:
      return kernel(double{});
    case DType::bf16:
      return kernel(BFloat16{});
    case DType::fp16:
      return kernel(Float16{});
    default:
      throw InternalError("op " + std::string(call.op->name) + " has no reference kernel for " +
                          std::string(dtype_name(call.operand(index).dtype)));
  }
}

}  // namespace cgconform::workloads::reference

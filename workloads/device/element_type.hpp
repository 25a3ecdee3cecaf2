#pragma once

#include <cstdint>
#include <type_traits>

#include "workloads/device/sixteen_bit.hpp"
#include "workloads/device/tensor.hpp"

namespace cgconform::workloads {

/// The DType whose elements the host holds as `T`.
template <typename T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, float>) return DType::fp32;
  if constexpr (std::is_same_v<T, double>) return DType::fp64;
  if constexpr (std::is_same_v<T, BFloat16>) return DType::bf16;
  if constexpr (std::is_same_v<T, Float16>) return DType::fp16;
  if constexpr (std::is_same_v<T, std::int32_t>) return DType::int32;
  if constexpr (std::is_same_v<T, std::int64_t>) return DType::int64;
  if constexpr (std::is_same_v<T, std::uint64_t>) return DType::uint64;
  if constexpr (std::is_same_v<T, std::uint8_t>) return DType::uint8;
}

}  // namespace cgconform::workloads

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>

namespace cgconform::workloads {

enum class DType : std::uint8_t { fp32, fp64, bf16, fp16, int32, int64, uint64, uint8 };

/// Size of one element in bytes.
std::int64_t dtype_bytes(DType dtype);
std::string_view dtype_name(DType dtype);
/// What ops compute and accumulate in for elements of this type: fp32 for the 16-bit types, the
/// type itself for others.
constexpr DType arithmetic_type(DType dtype) {
  return dtype == DType::bf16 || dtype == DType::fp16 ? DType::fp32 : dtype;
}

/// Extents of a contiguous row-major tensor of up to four dimensions; rank 0 is a scalar.
class Shape {
 public:
  constexpr Shape() = default;
  constexpr Shape(std::initializer_list<std::int64_t> extents) {
    for (std::int64_t extent : extents) extents_.at(static_cast<std::size_t>(rank_++)) = extent;
  }
  constexpr int rank() const { return rank_; }
  constexpr std::int64_t operator[](int axis) const {
    return extents_.at(static_cast<std::size_t>(axis));
  }
  constexpr std::int64_t elements() const {
    std::int64_t count = 1;
    for (int axis = 0; axis < rank_; ++axis) count *= extents_[static_cast<std::size_t>(axis)];
    return count;
  }
  friend constexpr bool operator==(const Shape&, const Shape&) = default;

 private:
  std::array<std::int64_t, 4> extents_{};
  int rank_ = 0;
};

/// A non-owning view of a contiguous tensor in device memory. Host code never dereferences `data`.
struct TensorView {
  void* data = nullptr;
  DType dtype = DType::fp32;
  Shape shape;

  std::int64_t elements() const { return shape.elements(); }
  std::int64_t bytes() const { return elements() * dtype_bytes(dtype); }
  bool valid() const { return data != nullptr; }
};

}  // namespace cgconform::workloads

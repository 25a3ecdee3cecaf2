#pragma once

#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <vector>

#include "workloads/device/element_type.hpp"
#include "workloads/device/sixteen_bit.hpp"
#include "workloads/ops/op_cases.hpp"

/// What the cases of ops are made of.
namespace cgconform::workloads {

using Views = std::span<const TensorView>;

template <typename T>
OperandContent operand_content(const Shape& shape, const std::vector<T>& values) {
  OperandContent result{dtype_of<T>(), shape, {}};
  result.bytes.resize(values.size() * sizeof(T));
  std::memcpy(result.bytes.data(), values.data(), result.bytes.size());
  return result;
}

template <typename T>
OperandContent scalar(T value) {
  return operand_content(Shape{}, std::vector<T>{value});
}

/// Makes operands of one floating type from one stream of random numbers.
class OperandMaker {
 public:
  OperandMaker(DType floating, std::int64_t width) : floating_(floating), width_(width) {}

  /// Elements of a row.
  std::int64_t width() const { return width_; }

  /// Multiples of 1/64 in [-2, 2], which every floating type represents exactly.
  OperandContent numbers(const Shape& shape) { return converted(shape, values(shape), floating_); }
  /// As `numbers`, of the arithmetic type.
  OperandContent wide_numbers(const Shape& shape) {
    return converted(shape, values(shape), arithmetic_type(floating_));
  }
  /// Numbers above 0.5 of the arithmetic type, for operands that are divided by or that a root is
  /// taken of.
  OperandContent positive(const Shape& shape) {
    std::vector<double> result = values(shape);
    for (double& value : result) value = value * value + 0.5;
    return converted(shape, result, arithmetic_type(floating_));
  }
  OperandContent indices(std::int64_t count, std::int64_t bound) {
    std::vector<std::int32_t> result(static_cast<std::size_t>(count));
    for (std::int32_t& value : result) {
      value = static_cast<std::int32_t>(random_() % static_cast<std::uint64_t>(bound));
    }
    return operand_content(Shape{count}, result);
  }
  OperandContent index_table(const Shape& shape, std::int64_t bound) {
    OperandContent table = indices(shape.elements(), bound);
    table.shape = shape;
    return table;
  }
  OperandContent mask(const Shape& shape) {
    std::vector<std::uint8_t> result(static_cast<std::size_t>(shape.elements()));
    for (std::uint8_t& value : result) value = random_() % 2 == 0 ? 0 : 1;
    return operand_content(shape, result);
  }
  /// Only the first row does not count.
  OperandContent loss_mask(std::int64_t rows) {
    std::vector<double> result(static_cast<std::size_t>(rows), 1.0);
    result.front() = 0.0;
    return converted(Shape{rows}, result, arithmetic_type(floating_));
  }

 private:
  std::vector<double> values(const Shape& shape) {
    std::vector<double> result(static_cast<std::size_t>(shape.elements()));
    for (double& value : result) value = static_cast<double>(random_() % 257) / 64.0 - 2.0;
    return result;
  }

  template <typename T>
  static OperandContent converted_to(const Shape& shape, const std::vector<double>& values) {
    std::vector<T> result;
    result.reserve(values.size());
    for (const double value : values) {
      result.push_back(static_cast<T>(static_cast<Arithmetic<T>>(value)));
    }
    return operand_content(shape, result);
  }
  static OperandContent converted(const Shape& shape, const std::vector<double>& values,
                                  DType type) {
    switch (type) {
      case DType::fp64:
        return converted_to<double>(shape, values);
      case DType::bf16:
        return converted_to<BFloat16>(shape, values);
      case DType::fp16:
        return converted_to<Float16>(shape, values);
      default:
        return converted_to<float>(shape, values);
    }
  }

  DType floating_;
  std::int64_t width_;
  std::mt19937_64 random_{11};
};

inline OperandContent random_state() {
  return operand_content(Shape{2}, std::vector<std::uint64_t>{5, 9});
}

/// The cases of the ops of routers and experts.
void add_expert_op_cases(OperandMaker& make, std::vector<OpCase>& cases);
/// Those of Mamba layers, attention in one op, packed sequences and heads in groups.
void add_variant_op_cases(OperandMaker& make, std::vector<OpCase>& cases);
/// Those that quantise.
void add_fp8_op_cases(OperandMaker& make, std::vector<OpCase>& cases);

}  // namespace cgconform::workloads

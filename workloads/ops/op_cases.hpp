#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "workloads/device/stream.hpp"

namespace cgconform::workloads {

/// Content of one operand before the op runs.
struct OperandContent {
  DType dtype = DType::fp32;
  Shape shape;
  std::vector<std::byte> bytes;
};

/// A call of an op on small operands, through its launcher; for comparisons of devices and tests.
struct OpCase {
  const OpDeclaration* op = nullptr;
  std::vector<OperandContent> operands;  ///< in the declaration's order
  std::function<void(Stream&, std::span<const TensorView>)> launch;
};

/// At least one case for every op of the table, with floating operands of type `floating`, or of
/// its arithmetic type, that hold the same values in all types. Rows have `width` elements, at
/// least 5.
std::vector<OpCase> op_cases(DType floating, std::int64_t width = 5);

}  // namespace cgconform::workloads

#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "matrix/cell.hpp"
#include "workloads/device/tensor.hpp"

namespace cgconform::suites {

/// Closeness |actual - expected| <= absolute + relative * |expected|; both 0 means bit for bit.
struct Tolerance {
  double relative = 0.0;
  double absolute = 0.0;
  bool bitwise() const { return relative == 0.0 && absolute == 0.0; }
};

struct ToleranceRow {
  workloads::DType dtype = workloads::DType::fp32;
  Tolerance tolerance;
};

/// Closeness by dtype, for cells with an order-changing reason only. Dtypes without a row are
/// compared bit for bit always.
std::span<const ToleranceRow> tolerance_table();
Tolerance tolerance_of(workloads::DType dtype);

/// A reason why graph and eager may add in different orders, and the cells it holds for.
struct OrderChangingReason {
  std::string_view name;
  std::string_view why;
  bool (*applies)(const matrix::Cell& cell);
};

/// The named reasons. Where none applies, graph must equal eager bit for bit.
std::span<const OrderChangingReason> order_changing_reasons();
/// The first reason that applies to the cell; null where comparison is bitwise.
const OrderChangingReason* order_changing_reason(const matrix::Cell& cell);

}  // namespace cgconform::suites

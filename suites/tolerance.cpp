#include "suites/tolerance.hpp"

#include <algorithm>
#include <array>

namespace cgconform::suites {
namespace {

using workloads::DType;

constexpr std::array tolerance_rows{
    ToleranceRow{DType::fp32, {.relative = 1.3e-6, .absolute = 1e-5}},
    ToleranceRow{DType::fp64, {.relative = 1e-7, .absolute = 1e-7}},
    ToleranceRow{DType::fp16, {.relative = 1e-3, .absolute = 1e-5}},
    ToleranceRow{DType::bf16, {.relative = 1.6e-2, .absolute = 1e-5}},
};

}  // namespace

std::span<const ToleranceRow> tolerance_table() {
  return tolerance_rows;
}

Tolerance tolerance_of(DType dtype) {
  const auto* row = std::find_if(tolerance_rows.begin(), tolerance_rows.end(),
                                 [&](const ToleranceRow& r) { return r.dtype == dtype; });
  return row == tolerance_rows.end() ? Tolerance{} : row->tolerance;
}

std::span<const OrderChangingReason> order_changing_reasons() {
  // Both legs use the same kernels in the same order on every device there is, so none is needed.
  return {};
}

const OrderChangingReason* order_changing_reason(const matrix::Cell& cell) {
  for (const OrderChangingReason& reason : order_changing_reasons()) {
    if (reason.applies(cell)) return &reason;
  }
  return nullptr;
}

}  // namespace cgconform::suites

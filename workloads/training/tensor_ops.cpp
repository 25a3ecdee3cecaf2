#include "workloads/training/tensor_ops.hpp"

namespace cgconform::workloads {

TensorView rows_of(const TensorView& tensor, std::int64_t first, std::int64_t count) {
  const std::int64_t row_bytes = tensor.bytes() / tensor.shape[0];
  TensorView rows = tensor;
  rows.data = static_cast<std::byte*>(tensor.data) + first * row_bytes;
  rows.shape = tensor.shape.rank() == 1 ? Shape{count} : Shape{count, tensor.shape[1]};
  return rows;
}

TensorView elements_of(const TensorView& tensor, std::int64_t first, const Shape& shape) {
  auto* data = static_cast<std::byte*>(tensor.data) + first * dtype_bytes(tensor.dtype);
  return {data, tensor.dtype, shape};
}

}  // namespace cgconform::workloads

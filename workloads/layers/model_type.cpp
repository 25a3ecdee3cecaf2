#include "workloads/layers/model_type.hpp"

#include "matrix/error.hpp"

namespace cgconform::workloads {

DType model_type(const matrix::Cell& cell) {
  switch (cell.config.params_dtype) {
    case matrix::ParamsDtype::fp32:
      return DType::fp32;
    case matrix::ParamsDtype::fp64:
      return DType::fp64;
    case matrix::ParamsDtype::bf16:
      return DType::bf16;
    case matrix::ParamsDtype::fp16:
      return DType::fp16;
  }
  throw InternalError("a params_dtype without a type of the workload");
}

}  // namespace cgconform::workloads

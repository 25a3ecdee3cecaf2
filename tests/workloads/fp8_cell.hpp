#pragma once

#include "matrix/cell.hpp"
#include "tests/workloads/pipeline_legs.hpp"

namespace cgconform::workloads::testing {

/// A small model whose linear layers multiply in 8 bits.
inline matrix::Cell fp8_cell(matrix::CudaGraphImpl impl, matrix::Fp8Format format,
                             matrix::Fp8Recipe recipe) {
  matrix::Cell cell = small_cell(impl);
  cell.config.params_dtype = matrix::ParamsDtype::bf16;
  cell.config.bf16 = true;
  cell.config.fp8 = format;
  cell.config.fp8_recipe = recipe;
  cell.config.fp8_amax_history_len = 3;
  cell.config.fp8_amax_compute_algo = matrix::Fp8AmaxComputeAlgo::max;
  return cell;
}

}  // namespace cgconform::workloads::testing

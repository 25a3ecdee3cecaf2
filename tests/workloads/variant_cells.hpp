#pragma once

#include <cstdint>

#include "matrix/cell.hpp"

/// Kinds of batches that a cell can be given.
namespace cgconform::workloads::testing {

inline matrix::Cell packed(matrix::Cell cell) {
  cell.config.sequence_packing = matrix::SequencePacking::offline;
  cell.config.pad_to_max_length = true;
  cell.config.pad_cu_seqlens = true;
  return cell;
}

inline matrix::Cell with_images(matrix::Cell cell, std::int32_t tokens) {
  cell.shape.image_tokens = tokens;
  return cell;
}

}  // namespace cgconform::workloads::testing

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "workloads/device/stream.hpp"

namespace cgconform::workloads {

/// What a checkpoint holds of one rank, on the host: all that training needs to go on as if it had
/// not been interrupted.
struct TrainingState {
  std::int32_t next_step = 0;
  std::vector<std::vector<std::byte>> tensors;  ///< in the order of the leg's own list
  std::uint64_t layer_forwards = 0;
  double losses_read = 0.0;
  std::vector<std::byte> running_loss;  ///< empty where the rank has none

  bool saved() const { return !tensors.empty(); }
};

/// The bytes of a tensor on the host; waits for the stream.
std::vector<std::byte> save_tensor(Stream& stream, const TensorView& tensor);
/// Puts saved bytes in place; throws Error where the tensor has another size.
void load_tensor(Stream& stream, const TensorView& tensor, const std::vector<std::byte>& bytes);

}  // namespace cgconform::workloads

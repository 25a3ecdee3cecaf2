#include "workloads/training/training_state.hpp"

#include <fmt/format.h>

#include "matrix/error.hpp"

namespace cgconform::workloads {

std::vector<std::byte> save_tensor(Stream& stream, const TensorView& tensor) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(tensor.bytes()));
  stream.download(bytes.data(), tensor);
  return bytes;
}

void load_tensor(Stream& stream, const TensorView& tensor, const std::vector<std::byte>& bytes) {
  if (static_cast<std::size_t>(tensor.bytes()) != bytes.size()) {
    throw Error(
        fmt::format("checkpoint: {} bytes for a tensor of {}; load it into the cell that "
                    "saved it",
                    bytes.size(), tensor.bytes()));
  }
  stream.upload(tensor, bytes.data(), false, "load checkpoint");
}

}  // namespace cgconform::workloads

#include <algorithm>

#include "matrix/error.hpp"
#include "workloads/layers/layer.hpp"

namespace cgconform::workloads {

const Buffer& SavedActivations::at(std::string_view name) const {
  const auto found = std::find_if(buffers_.begin(), buffers_.end(),
                                  [name](const auto& entry) { return entry.first == name; });
  if (found == buffers_.end()) {
    throw InternalError("activation " + std::string(name) +
                        " was not kept by the forward of the layer");
  }
  return found->second;
}

}  // namespace cgconform::workloads

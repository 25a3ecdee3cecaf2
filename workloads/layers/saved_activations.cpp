#include <algorithm>

#include "matrix/error.hpp"
#include "workloads/layers/layer.hpp"

namespace cgconform::workloads {

TensorView SavedActivations::find(std::string_view name) const {
  const auto is_named = [name](const auto& entry) { return entry.first == name; };
  if (const auto kept = std::find_if(buffers_.begin(), buffers_.end(), is_named);
      kept != buffers_.end()) {
    return kept->second.view();
  }
  const auto borrowed = std::find_if(borrowed_.begin(), borrowed_.end(), is_named);
  return borrowed == borrowed_.end() ? TensorView{} : borrowed->second;
}

TensorView SavedActivations::at(std::string_view name) const {
  const TensorView found = find(name);
  if (!found.valid()) {
    throw InternalError("activation " + std::string(name) +
                        " was not kept by the forward of the layer");
  }
  return found;
}

std::vector<std::pair<std::string, TensorView>> SavedActivations::views() const {
  std::vector<std::pair<std::string, TensorView>> all;
  all.reserve(buffers_.size() + borrowed_.size());
  for (const auto& [name, buffer] : buffers_) all.emplace_back(name, buffer.view());
  all.insert(all.end(), borrowed_.begin(), borrowed_.end());
  return all;
}

}  // namespace cgconform::workloads

#pragma once

#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "workloads/layers/bias_gradients.hpp"
#include "workloads/layers/layer.hpp"
#include "workloads/layers/wgrad_branch.hpp"

namespace cgconform::workloads {

/// The gradient of a linear layer's parameters that a backward has left for later.
struct DelayedWgrad {
  std::string name;  ///< of the linear layer
  TensorView grad;   ///< of its output
  TensorView input;
  /// Adds it to `main_grad`; the bias's too.
  std::function<void(LayerContext& context)> add;
};

/// What the backward of one call of a layer has left for later, in the order in which it came up,
/// and the memory that this reads and nobody else keeps.
class DelayedWgrads {
 public:
  void leave(DelayedWgrad wgrad) { left_.push_back(std::move(wgrad)); }
  void keep(Buffer buffer) { kept_.push_back(std::move(buffer)); }

  std::span<const DelayedWgrad> left() const { return left_; }
  void add_all(LayerContext& context) const {
    for (const DelayedWgrad& wgrad : left_) wgrad.add(context);
  }
  void clear() {
    left_.clear();
    kept_.clear();
  }

 private:
  std::vector<DelayedWgrad> left_;
  std::vector<Buffer> kept_;
};

/// At the end of a backward: `buffer` stays where gradients of parameters that are added later, or
/// beside it, may read it.
inline void keep_for_wgrads(LayerContext& context, Buffer& buffer) {
  if (!buffer.valid()) return;
  if (context.delayed != nullptr) {
    context.delayed->keep(std::move(buffer));
  } else if (context.wgrad_branch != nullptr) {
    context.wgrad_branch->keep(std::move(buffer));
  } else if (context.bias_gradients != nullptr) {
    context.bias_gradients->keep_if_read(buffer);
  }
}

}  // namespace cgconform::workloads

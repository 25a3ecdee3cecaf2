#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "workloads/layers/layer.hpp"
#include "workloads/ops/elementwise.hpp"

namespace cgconform::workloads {

/// Gradients of biases that one backward of a layer adds at its end, all in one launch: of a few
/// rows, a launch is what costs.
class BiasGradients {
 public:
  /// Leaves a gradient for the end and returns true, unless it has so many rows that it is better
  /// added at once.
  bool leave(const TensorView& grad_bias, const TensorView& grad_output);
  /// Keeps `buffer`, which its owner no longer needs, where a gradient that was left reads it.
  void keep_if_read(Buffer& buffer);
  /// Adds what was left, and gives back what was kept.
  void add_all(Stream& stream, std::string_view label);

 private:
  std::vector<BiasGradient> left_;
  std::vector<Buffer> kept_;
};

/// Adds the gradient of a bias, at once or at the end of the backward.
void add_bias_gradient(LayerContext& context, const TensorView& grad_bias,
                       const TensorView& grad_output, const std::string& label);

}  // namespace cgconform::workloads

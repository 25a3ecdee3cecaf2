#include "workloads/layers/bias_gradients.hpp"

#include <algorithm>
#include <utility>

namespace cgconform::workloads {

bool BiasGradients::leave(const TensorView& grad_bias, const TensorView& grad_output) {
  constexpr std::int64_t few_rows = 1024;
  if (grad_output.elements() > few_rows * grad_bias.elements()) return false;
  left_.push_back({grad_bias, grad_output});
  return true;
}

void BiasGradients::keep_if_read(Buffer& buffer) {
  const auto reads = [data = buffer.view().data](const BiasGradient& gradient) {
    return gradient.grad_output.data == data;
  };
  if (std::any_of(left_.begin(), left_.end(), reads)) kept_.push_back(std::move(buffer));
}

void BiasGradients::add_all(Stream& stream, std::string_view label) {
  if (!left_.empty()) bias_grads(stream, left_, std::string(label) + " biases backward");
  left_.clear();
  kept_.clear();
}

void add_bias_gradient(LayerContext& context, const TensorView& grad_bias,
                       const TensorView& grad_output, const std::string& label) {
  if (context.bias_gradients != nullptr && context.bias_gradients->leave(grad_bias, grad_output)) {
    return;
  }
  bias_grad(context.stream, grad_bias, grad_output, label);
}

}  // namespace cgconform::workloads

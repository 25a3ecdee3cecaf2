#include "workloads/layers/vision_encoder.hpp"

#include <utility>

#include "workloads/layers/layer_ops.hpp"
#include "workloads/ops/elementwise.hpp"

namespace cgconform::workloads {

namespace {

/// Numbers of the parameters after the first.
enum Number : std::uint64_t { patch_weight_number, patch_bias_number, mlp_numbers = 8 };

TransformerShape without_dropout(TransformerShape shape) {
  shape.hidden_dropout = 0.0F;
  return shape;
}

}  // namespace

VisionEncoder::VisionEncoder(const TransformerShape& shape, std::int64_t patch_size,
                             const ModuleParameters& made_in) {
  const auto added = [&](const char* name, const Shape& extents, const ParameterInit& init,
                         Number number) {
    return parameters_.emplace_back(
        made_in.store.add(name, extents, init, made_in.first_number + number));
  };
  patch_weight_ = added("vision.patch_embedding.weight", {shape.hidden, patch_size},
                        weight_init(patch_size), patch_weight_number);
  patch_bias_ = added("vision.patch_embedding.bias", {shape.hidden}, bias_init, patch_bias_number);
  mlp_ = std::make_unique<Mlp>("vision", without_dropout(shape),
                               ModuleParameters{made_in.store, made_in.first_number + mlp_numbers});
  for (Parameter parameter : mlp_->parameters()) {
    parameter.name = "vision." + parameter.name;
    parameters_.push_back(std::move(parameter));
  }
}

Buffer VisionEncoder::forward(LayerContext& context, const TensorView& patches,
                              SavedActivations& saved) {
  Buffer read = make_buffer(context, patch_weight_.weight.dtype, patches.shape, "vision.patches");
  cast(context.stream, read.view(), patches, op_label(context, "vision.patches"));
  Buffer embedded =
      linear_forward(context, read.view(), patch_weight_, &patch_bias_, "vision.patch_embedding");
  keep(context, saved, "vision.patches", std::move(read));
  Buffer output = mlp_->forward(context, embedded.view(), saved);
  keep(context, saved, "vision.patch_embedding", std::move(embedded));
  return output;
}

void VisionEncoder::backward(LayerContext& context, const TensorView& patches,
                             const TensorView& grad_output) {
  SavedActivations saved;
  LayerContext again = context;
  again.label += " again";
  again.tap = nullptr;
  const Buffer output = forward(again, patches, saved);
  const Buffer grad_embedded = mlp_->backward(context, grad_output, saved);
  const Buffer grad_patches =
      linear_backward(context, grad_embedded.view(), saved.at("vision.patches"), patch_weight_,
                      &patch_bias_, "vision.patch_embedding");
}

}  // namespace cgconform::workloads

#include "workloads/layers/loss_scaler.hpp"

#include "workloads/ops/optimizer.hpp"

namespace cgconform::workloads {

namespace {

constexpr float initial_scale = 1024.0F;
/// Short enough for the scale to grow within the few steps of a leg.
constexpr LossScaleParams movement{.growth_interval = 2};

}  // namespace

LossScaler::LossScaler(CachingAllocator& allocator, Stream& stream,
                       std::optional<float> fixed_scale, Communicator* stages)
    : moves_(!fixed_scale),
      stages_(stages),
      loss_scale_(allocator, stream, default_pool, DType::fp32, Shape{}, "loss_scale"),
      good_steps_(allocator, stream, default_pool, DType::int64, Shape{}, "good_steps"),
      overflowed_(allocator, stream, default_pool, DType::fp32, Shape{}, "overflowed") {
  const float scale = fixed_scale.value_or(initial_scale);
  stream.upload(loss_scale_.view(), &scale, false, "loss_scale");
  stream.fill(good_steps_.view(), 0, "good_steps");
  stream.fill(overflowed_.view(), 0, "overflowed");
}

void LossScaler::unscale(Stream& stream, std::span<const TensorView> main_grads) {
  stream.fill(overflowed_.view(), 0, "overflowed");
  for (const TensorView& grad : main_grads) {
    unscale_gradients(stream, grad, overflowed_.view(), loss_scale_.view(), "unscale gradients");
  }
  if (stages_ == nullptr) return;
  stages_->all_reduce(overflowed_.view(), overflowed_.view(), ReduceOp::max, stream,
                      "agree on overflow");
}

void LossScaler::update(Stream& stream) {
  if (!moves_) return;
  update_loss_scale(stream, loss_scale_.view(), good_steps_.view(), overflowed_.view(), movement,
                    "update loss scale");
}

std::vector<std::pair<std::string, TensorView>> LossScaler::state() const {
  return {{"loss_scale", loss_scale_.view()},
          {"good_steps", good_steps_.view()},
          {"overflowed", overflowed_.view()}};
}

}  // namespace cgconform::workloads

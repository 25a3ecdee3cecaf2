#pragma once

#include <string>

#include "workloads/device/stream.hpp"

namespace cgconform::workloads {

struct SgdParams {
  float momentum = 0.9F;
};

struct AdamParams {
  float beta_1 = 0.9F;
  float beta_2 = 0.95F;
  float epsilon = 1e-8F;
};

/// How the loss scale follows overflow: multiplied by `backoff`, but not below `smallest`, after a
/// step that overflowed, and by `growth` after so many steps in a row that did not.
struct LossScaleParams {
  float growth = 2.0F;
  float backoff = 0.5F;
  float smallest = 1.0F;
  std::int32_t growth_interval = 1000;
};

extern const OpDeclaration sgd_step_op;
extern const OpDeclaration adam_step_op;
extern const OpDeclaration advance_step_op;
extern const OpDeclaration unscale_gradients_op;
extern const OpDeclaration update_loss_scale_op;

/// velocity = momentum * velocity + grad; weight -= learning_rate * velocity. The learning rate is
/// a scalar of the weight's type in device memory. In all steps `overflowed`, an fp32 flag in
/// device memory, leaves everything as it is where it is set; an invalid view stands for a flag not
/// set.
void sgd_step(Stream& stream, const TensorView& weight, const TensorView& velocity,
              const TensorView& grad, const TensorView& learning_rate, const TensorView& overflowed,
              const SgdParams& params, std::string label);

/// Adam with bias correction by `step`, an int64 in device memory that counts from 1.
void adam_step(Stream& stream, const TensorView& weight, const TensorView& first_moment,
               const TensorView& second_moment, const TensorView& grad,
               const TensorView& learning_rate, const TensorView& step,
               const TensorView& overflowed, const AdamParams& params, std::string label);

/// step += 1.
void advance_step(Stream& stream, const TensorView& step, const TensorView& overflowed,
                  std::string label);

/// grad /= loss_scale; sets `overflowed` where an element of grad is not finite. All fp32.
void unscale_gradients(Stream& stream, const TensorView& grad, const TensorView& overflowed,
                       const TensorView& loss_scale, std::string label);

/// Moves the fp32 loss scale by what `overflowed` says of the step; `good_steps`, an int64, counts
/// the steps since the scale moved last.
void update_loss_scale(Stream& stream, const TensorView& loss_scale, const TensorView& good_steps,
                       const TensorView& overflowed, const LossScaleParams& params,
                       std::string label);

}  // namespace cgconform::workloads

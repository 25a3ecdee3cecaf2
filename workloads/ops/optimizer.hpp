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

extern const OpDeclaration sgd_step_op;
extern const OpDeclaration adam_step_op;
extern const OpDeclaration advance_step_op;

/// velocity = momentum * velocity + grad; weight -= learning_rate * velocity. The learning rate is
/// a scalar of the weight's type in device memory.
void sgd_step(Stream& stream, const TensorView& weight, const TensorView& velocity,
              const TensorView& grad, const TensorView& learning_rate, const SgdParams& params,
              std::string label);

/// Adam with bias correction by `step`, an int64 in device memory that counts from 1.
void adam_step(Stream& stream, const TensorView& weight, const TensorView& first_moment,
               const TensorView& second_moment, const TensorView& grad,
               const TensorView& learning_rate, const TensorView& step, const AdamParams& params,
               std::string label);

/// step += 1.
void advance_step(Stream& stream, const TensorView& step, std::string label);

}  // namespace cgconform::workloads

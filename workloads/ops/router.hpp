#pragma once

#include <cstdint>
#include <string>

#include "workloads/device/stream.hpp"

namespace cgconform::workloads {

/// By-value scalar of what the load-balancing loss adds: its weight a token of an expert.
struct BalanceParams {
  float scale = 0.0F;
  float expected_load = 0.0F;  ///< of `load_gradient` only
};

/// By-value scalars of the input jitter.
struct JitterParams {
  float range = 0.0F;
  std::uint32_t advance = 1;  ///< added to the offset after the draw
};

extern const OpDeclaration top_k_router_forward_op;
extern const OpDeclaration top_k_router_backward_op;
extern const OpDeclaration count_load_op;
extern const OpDeclaration load_balancing_loss_op;
extern const OpDeclaration load_gradient_op;
extern const OpDeclaration jitter_forward_op;
extern const OpDeclaration multiply_op;

/// scores [tokens, experts] = softmax of the rows of logits; experts [tokens, k] (int32) are the k
/// with the largest score plus bias, of equal ones the first; probabilities [tokens, k] are their
/// scores. Logits, scores, probabilities and bias have one type; the bias may be an invalid view.
void top_k_router_forward(Stream& stream, const TensorView& probabilities,
                          const TensorView& experts, const TensorView& scores,
                          const TensorView& logits, const TensorView& bias, std::string label);
/// Gradient of the logits through the probabilities and through the load-balancing loss, whose
/// gradient by a score is scale * loss_scale * load of its expert. The loss scale is a scalar in
/// device memory; an invalid view stands for 1.
void top_k_router_backward(Stream& stream, const TensorView& grad_logits,
                           const TensorView& grad_probabilities, const TensorView& experts,
                           const TensorView& scores, const TensorView& load,
                           const TensorView& loss_scale, float balance_scale, std::string label);

/// load [experts] (int32) = how often each expert stands in `experts`.
void count_load(Stream& stream, const TensorView& load, const TensorView& experts,
                std::string label);
/// loss [scalar] = scale * sum over experts of load * sum over tokens of scores.
void load_balancing_loss(Stream& stream, const TensorView& loss, const TensorView& load,
                         const TensorView& scores, float scale, std::string label);
/// grad_bias [experts] += scale * loss_scale * (load - expected_load): a bias that follows it takes
/// tokens from experts that have too many.
void load_gradient(Stream& stream, const TensorView& grad_bias, const TensorView& load,
                   const TensorView& loss_scale, const BalanceParams& params, std::string label);

/// output = x * noise, where noise [as x] is drawn by Philox between 1 - range and 1 + range from
/// `seed_and_offset`, whose offset is then advanced.
void jitter_forward(Stream& stream, const TensorView& output, const TensorView& noise,
                    const TensorView& seed_and_offset, const TensorView& x,
                    const JitterParams& params, std::string label);
/// product = a * b, element by element.
void multiply(Stream& stream, const TensorView& product, const TensorView& a, const TensorView& b,
              std::string label);

}  // namespace cgconform::workloads

#include "workloads/layers/grouped_linear.hpp"

#include <cstddef>
#include <utility>

#include <fmt/format.h>

#include "workloads/layers/delayed_wgrads.hpp"
#include "workloads/layers/layer_ops.hpp"
#include "workloads/ops/gemm.hpp"
#include "workloads/training/tensor_ops.hpp"

namespace cgconform::workloads {

namespace {

/// Rows of a segment as a batch, [experts, rows, columns].
TensorView batch_of(const TensorView& rows, const ExpertSegment& segment) {
  const std::int64_t columns = rows.shape[1];
  return elements_of(rows, segment.first * columns, {segment.experts, segment.count, columns});
}

/// Weights of a segment's experts, [experts, out, in].
TensorView weights_of(const TensorView& weights, const ExpertSegment& segment) {
  const std::int64_t out = weights.shape[1];
  const std::int64_t in = weights.shape[2];
  return elements_of(weights, segment.expert * out * in, {segment.experts, out, in});
}

/// The weight of one expert, [out, in].
TensorView weight_of(const TensorView& weights, std::int64_t expert) {
  const std::int64_t out = weights.shape[1];
  const std::int64_t in = weights.shape[2];
  return elements_of(weights, expert * out * in, {out, in});
}

/// Where rows of the expert lie.
std::vector<RowRange> rows_of_expert(const ExchangePlan& plan, std::int32_t expert) {
  std::vector<RowRange> ranges;
  for (const ExpertSegment& segment : plan.segments) {
    const std::int32_t within = expert - segment.expert;
    if (within < 0 || within >= segment.experts || segment.count == 0) continue;
    ranges.push_back({segment.first + within * segment.count, segment.count});
  }
  return ranges;
}

void add_wgrads(Stream& stream, const std::vector<ExpertSegment>& segments,
                const TensorView& main_grad, const TensorView& grads, const TensorView& inputs,
                const std::string& label) {
  for (const ExpertSegment& segment : segments) {
    gemm_accumulate(stream, weights_of(main_grad, segment), batch_of(grads, segment), true,
                    batch_of(inputs, segment), false, label);
  }
}

/// Adds the gradients of the experts' weights, or leaves them for later where the context delays
/// them.
void add_or_leave_wgrads(LayerContext& context, const ExchangePlan& plan,
                         const TensorView& main_grad, const TensorView& grads,
                         const TensorView& inputs, const std::string& name) {
  if (context.delayed == nullptr) {
    add_wgrads(context.stream, plan.segments, main_grad, grads, inputs,
               op_label(context, name + " backward"));
    return;
  }
  context.delayed->leave({name, grads, inputs, [=, segments = plan.segments](LayerContext& later) {
                            add_wgrads(later.stream, segments, main_grad, grads, inputs,
                                       op_label(later, name + " weight backward"));
                          }});
}

}  // namespace

GroupedLinear::GroupedLinear(std::string name, const Parameter& weights, Fp8State* fp8)
    : name_(std::move(name)), weights_(weights) {
  if (fp8 == nullptr) return;
  for (std::int64_t expert = 0; expert < weights.weight.shape[0]; ++expert) {
    Parameter weight = weights;
    weight.weight = weight_of(weights.weight, expert);
    weight.main_grad = weight_of(weights.main_grad, expert);
    in_8_bits_.emplace_back(*fp8, weight);
  }
}

void GroupedLinear::forward(LayerContext& context, const ExchangePlan& plan, const TensorView& x,
                            const TensorView& y) const {
  for (std::size_t expert = 0; expert < in_8_bits_.size(); ++expert) {
    std::vector<LinearRows> parts;
    for (const RowRange& rows : rows_of_expert(plan, static_cast<std::int32_t>(expert))) {
      parts.push_back({rows_of(x, rows.first, rows.count), rows_of(y, rows.first, rows.count)});
    }
    in_8_bits_[expert].forward(context, parts, fmt::format("{}.{}", name_, expert));
  }
  if (!in_8_bits_.empty()) return;
  for (const ExpertSegment& segment : plan.segments) {
    gemm(context.stream, batch_of(y, segment), batch_of(x, segment), false,
         weights_of(weights_.weight, segment), true, op_label(context, name_));
  }
}

void GroupedLinear::backward(LayerContext& context, const ExchangePlan& plan,
                             const TensorView& grad_y, const TensorView& x,
                             const TensorView& grad_x) const {
  for (std::size_t expert = 0; expert < in_8_bits_.size(); ++expert) {
    std::vector<LinearGradRows> parts;
    for (const RowRange& rows : rows_of_expert(plan, static_cast<std::int32_t>(expert))) {
      parts.push_back({rows_of(grad_y, rows.first, rows.count), rows_of(x, rows.first, rows.count),
                       rows_of(grad_x, rows.first, rows.count)});
    }
    in_8_bits_[expert].backward(context, parts, fmt::format("{}.{}", name_, expert));
  }
  if (!in_8_bits_.empty()) return;
  for (const ExpertSegment& segment : plan.segments) {
    gemm(context.stream, batch_of(grad_x, segment), batch_of(grad_y, segment), false,
         weights_of(weights_.weight, segment), false, op_label(context, name_ + " backward"));
  }
  add_or_leave_wgrads(context, plan, weights_.main_grad, grad_y, x, name_);
}

}  // namespace cgconform::workloads

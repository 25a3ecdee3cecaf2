#include "workloads/layers/moe_router.hpp"

#include <utility>

#include "workloads/layers/checkpoint.hpp"
#include "workloads/layers/layer_ops.hpp"
#include "workloads/ops/elementwise.hpp"
#include "workloads/ops/gemm.hpp"
#include "workloads/ops/router.hpp"

namespace cgconform::workloads {

namespace {

/// Numbers of the parameters after the module's first.
enum Number : std::uint64_t {
  norm_numbers,
  weight_number = norm_numbers + 2,
  bias_number,
  shared_numbers,
};

constexpr const char* part_name = "moe_router";
constexpr const char* noise_name = "router.noise";
constexpr const char* gate_input_name = "router.input";

}  // namespace

MoeRouter::MoeRouter(std::string layer_name, const TransformerShape& shape, const MoeShape& moe,
                     const ModuleParameters& made_in)
    : name_(std::move(layer_name)),
      shape_(shape),
      moe_(moe),
      tensor_(made_in.tensor),
      norm_("pre_mlp_layernorm", shape.hidden, made_in, norm_numbers),
      layouts_(moe_layouts(shape, moe, norm_.weight().weight.dtype)) {
  parameters_ = {norm_.weight(), norm_.bias()};
  weight_ = parameters_.emplace_back(
      made_in.store.add("mlp.router.weight", {moe.experts, shape.hidden}, weight_init(shape.hidden),
                        made_in.first_number + weight_number));
  parameters_.back().partial_gradient = tensor_.shares_rows();
  if (moe.expert_bias) {
    bias_ = parameters_.emplace_back(made_in.store.add("mlp.router.expert_bias", {moe.experts}, {},
                                                       made_in.first_number + bias_number));
  }
  if (moe.shared_hidden > 0) {
    ModuleParameters of_shared = made_in;
    of_shared.first_number += shared_numbers;
    shared_.emplace(shape.hidden, moe.shared_hidden, of_shared);
    for (const Parameter& parameter : shared_->parameters()) parameters_.push_back(parameter);
  }
}

float MoeRouter::balance_scale() const {
  const auto tokens = static_cast<float>(all_tokens());
  return moe_.balance_coefficient * static_cast<float>(moe_.experts) /
         (tokens * tokens * static_cast<float>(moe_.top_k));
}

Buffer MoeRouter::forward(LayerContext& context, const TensorView& input, SavedActivations& saved) {
  Buffer normed = norm_.forward(context, input, saved);
  Buffer bundle = make_bundle(context, layouts_.routed, "moe_router output");
  context.stream.copy(layouts_.routed.part(bundle.view(), "residual"), input,
                      op_label(context, "moe residual"));
  context.stream.copy(layouts_.routed.part(bundle.view(), "normed"), normed.view(),
                      op_label(context, "moe input"));
  checkpoint(context, matrix::RecomputeModule::moe, saved, part_name,
             [&](LayerContext& run, SavedActivations& kept) {
               route(run, normed.view(), bundle.view(), kept);
             });
  norm_.keep_or_discard(context, input, std::move(normed), saved);
  return bundle;
}

TensorView MoeRouter::gate_input(LayerContext& context, const TensorView& normed,
                                 SavedActivations& saved) {
  if (!context.training || moe_.jitter == 0.0F) return normed;
  Buffer jittered = make_buffer(context, normed.dtype, normed.shape, gate_input_name);
  Buffer noise = make_buffer(context, normed.dtype, normed.shape, noise_name);
  jitter_forward(context.stream, jittered.view(), noise.view(),
                 context.rng.at(RngStream::data_parallel), normed, {moe_.jitter},
                 op_label(context, gate_input_name));
  const TensorView view = jittered.view();
  saved.keep(noise_name, std::move(noise));
  saved.keep(gate_input_name, std::move(jittered));
  return view;
}

TensorView MoeRouter::bias(LayerContext& context, Buffer& converted) {
  if (!moe_.expert_bias) return {};
  const TensorView& weight = bias_.weight;
  if (arithmetic_type(weight.dtype) == weight.dtype) return weight;
  converted = make_buffer(context, arithmetic_type(weight.dtype), weight.shape, bias_.name);
  cast(context.stream, converted.view(), weight, op_label(context, bias_.name));
  return converted.view();
}

void MoeRouter::route(LayerContext& context, const TensorView& normed, const TensorView& bundle,
                      SavedActivations& saved) {
  Stream& stream = context.stream;
  const DType type = arithmetic_type(normed.dtype);
  const Shape per_score{shape_.tokens(), moe_.experts};
  const TensorView gated = gate_input(context, normed, saved);
  const Buffer logits = make_buffer(context, type, per_score, "router.logits");
  gemm(stream, logits.view(), gated, false, weight_.weight, true, op_label(context, "router"));
  Buffer scores = make_buffer(context, type, per_score, "router.scores");
  Buffer converted;
  const TensorView experts = layouts_.routed.part(bundle, "experts");
  const TensorView load = layouts_.routed.part(bundle, "load");
  top_k_router_forward(stream, layouts_.routed.part(bundle, "probabilities"), experts,
                       scores.view(), logits.view(), bias(context, converted),
                       op_label(context, "router.top_k"));
  count_load(stream, load, experts, op_label(context, "router.load"));
  tap_routing(context, bundle, scores.view());
  const auto copied = [&](const char* name, const TensorView& part) {
    Buffer copy = make_buffer(context, part.dtype, part.shape, name);
    stream.copy(copy.view(), part, op_label(context, name));
    return copy;
  };
  if (context.training) {
    saved.keep("router.experts", copied("router.experts", experts));
    Buffer all_loads = copied("router.load", load);
    if (tensor_.shares_rows()) {
      tensor_.all_reduce(all_loads.view(), stream, op_label(context, "router.load all-reduce"));
    }
    saved.keep("router.load", std::move(all_loads));
    saved.keep("router.scores", std::move(scores));
  }
  if (shared_) {
    shared_->forward(context, layouts_.routed.part(bundle, "shared"), normed, saved);
  }
}

void MoeRouter::tap_routing(LayerContext& context, const TensorView& bundle,
                            const TensorView& scores) {
  if (context.tap == nullptr) return;
  const TensorView load = layouts_.routed.part(bundle, "load");
  context.tap->tap("routing:experts", layouts_.routed.part(bundle, "experts"));
  context.tap->tap("routing:load", load);
  if (moe_.balance_coefficient == 0.0F) return;
  const Buffer loss = make_buffer(context, scores.dtype, Shape{1}, "load-balancing loss");
  load_balancing_loss(context.stream, loss.view(), load, scores, balance_scale(),
                      op_label(context, "load-balancing loss"));
  context.tap->tap("load_balancing_loss", loss.view());
}

Buffer MoeRouter::backward(LayerContext& context, const TensorView& grad_output,
                           SavedActivations& saved) {
  norm_.recompute_output(context, saved);
  recompute(context, saved, part_name, [&](LayerContext& again) {
    const Buffer bundle = make_bundle(again, layouts_.routed, part_name);
    route(again, norm_.output(saved), bundle.view(), saved);
  });
  const Buffer grad = grad_normed(context, grad_output, saved);
  return norm_.backward(context, grad.view(), layouts_.routed_grad.part(grad_output, "residual"),
                        saved);
}

Buffer MoeRouter::grad_normed(LayerContext& context, const TensorView& grad_bundle,
                              SavedActivations& saved) {
  Stream& stream = context.stream;
  const TensorView grad = layouts_.routed_grad.part(grad_bundle, "normed");
  const TensorView load = saved.at("router.load");
  const TensorView normed = norm_.output(saved);
  const Buffer grad_logits =
      make_buffer(context, grad.dtype, {shape_.tokens(), moe_.experts}, "router.logits");
  top_k_router_backward(
      stream, grad_logits.view(), layouts_.routed_grad.part(grad_bundle, "probabilities"),
      saved.at("router.experts"), saved.at("router.scores"), load, context.loss_scale,
      balance_scale() * moe_.grad_scale, op_label(context, "router.top_k backward"));
  if (moe_.expert_bias) {
    const float places = static_cast<float>(all_tokens()) * static_cast<float>(moe_.top_k);
    load_gradient(stream, bias_.main_grad, load, context.loss_scale,
                  {moe_.grad_scale / places, places / static_cast<float>(moe_.experts)},
                  op_label(context, "router.expert_bias"));
  }
  const bool jittered = saved.contains(noise_name);
  // The gate is no linear layer whose gradient can be delayed or added beside the backward.
  LayerContext at_once = context;
  at_once.delayed = nullptr;
  at_once.wgrad_branch = nullptr;
  at_once.bias_gradients = nullptr;
  const Buffer grad_gate =
      linear_backward(at_once, grad_logits.view(), jittered ? saved.at(gate_input_name) : normed,
                      weight_, nullptr, "router");
  if (jittered) {
    multiply(stream, grad_gate.view(), grad_gate.view(), saved.at(noise_name),
             op_label(context, "router.noise backward"));
  }
  Buffer sum = make_buffer(context, grad.dtype, grad.shape, "moe input");
  add(stream, sum.view(), grad, grad_gate.view(), op_label(context, "moe input backward"));
  if (!shared_) return sum;
  const Buffer grad_shared =
      shared_->backward(context, layouts_.routed_grad.part(grad_bundle, "shared"), normed, saved);
  accumulate(stream, sum.view(), grad_shared.view(), op_label(context, "shared_experts backward"));
  return sum;
}

}  // namespace cgconform::workloads

#include "workloads/layers/transformer_layer.hpp"

#include <cmath>
#include <initializer_list>
#include <utility>

#include "workloads/layers/checkpoint.hpp"
#include "workloads/layers/layer_ops.hpp"
#include "workloads/ops/attention.hpp"
#include "workloads/ops/elementwise.hpp"
#include "workloads/ops/gemm.hpp"

namespace cgconform::workloads {

namespace {

using matrix::RecomputeModule;

constexpr std::int32_t qkv_parts = 3;
constexpr const char* part_names[qkv_parts] = {"query", "key", "value"};

ParameterInit scaled(std::int32_t fan_in) {
  return {0.0F, 1.0F / std::sqrt(static_cast<float>(fan_in))};
}

constexpr ParameterInit norm_weight_init{1.0F, 0.02F};
constexpr ParameterInit bias_init{0.0F, 0.02F};

float softmax_scale(std::int64_t head_size) {
  return 1.0F / std::sqrt(static_cast<float>(head_size));
}

}  // namespace

class TransformerLayer::Half final : public Layer {
 public:
  using Pass = Buffer (TransformerLayer::*)(LayerContext&, const TensorView&, SavedActivations&);

  Half(TransformerLayer& whole, Pass forward_pass, Pass backward_pass,
       std::initializer_list<Index> indices)
      : whole_(whole), forward_(forward_pass), backward_(backward_pass) {
    for (const Index index : indices) {
      if (index < whole.parameters_.size()) parameters_.push_back(whole.parameters_[index]);
    }
  }

  std::string_view name() const override { return whole_.name(); }
  Buffer forward(LayerContext& context, const TensorView& input, SavedActivations& saved) override {
    return (whole_.*forward_)(context, input, saved);
  }
  Buffer backward(LayerContext& context, const TensorView& grad_output,
                  SavedActivations& saved) override {
    return (whole_.*backward_)(context, grad_output, saved);
  }
  std::span<const Parameter> parameters() const override { return parameters_; }

 private:
  TransformerLayer& whole_;
  Pass forward_;
  Pass backward_;
  std::vector<Parameter> parameters_;
};

struct TransformerLayer::Norm {
  const char* name;
  Index weight;
  Index bias;
};
const TransformerLayer::Norm TransformerLayer::input_norm{"input_layernorm", input_norm_weight,
                                                          input_norm_bias};
const TransformerLayer::Norm TransformerLayer::mlp_norm{"pre_mlp_layernorm", mlp_norm_weight,
                                                        mlp_norm_bias};

TransformerLayer::~TransformerLayer() = default;

TransformerLayer::TransformerLayer(std::string name, const TransformerShape& shape,
                                   ParameterStore& store, std::uint64_t first_number)
    : name_(std::move(name)), shape_(shape) {
  const std::int64_t hidden = shape_.hidden;
  const std::int64_t ffn = shape_.ffn_hidden;
  const auto add = [&](Index index, const char* parameter_name, const Shape& extents,
                       const ParameterInit& init) {
    parameters_.push_back(store.add(parameter_name, extents, init, first_number + index));
  };
  add(input_norm_weight, "input_layernorm.weight", {hidden}, norm_weight_init);
  add(input_norm_bias, "input_layernorm.bias", {hidden}, bias_init);
  add(qkv_weight, "self_attention.linear_qkv.weight", {3 * hidden, hidden}, scaled(shape_.hidden));
  add(projection_weight, "self_attention.linear_proj.weight", {hidden, hidden},
      scaled(shape_.hidden));
  add(mlp_norm_weight, "pre_mlp_layernorm.weight", {hidden}, norm_weight_init);
  add(mlp_norm_bias, "pre_mlp_layernorm.bias", {hidden}, bias_init);
  add(fc1_weight, "mlp.linear_fc1.weight", {ffn, hidden}, scaled(shape_.hidden));
  add(fc2_weight, "mlp.linear_fc2.weight", {hidden, ffn}, scaled(shape_.ffn_hidden));
  if (shape_.bias) {
    add(qkv_bias, "self_attention.linear_qkv.bias", {3 * hidden}, bias_init);
    add(projection_bias, "self_attention.linear_proj.bias", {hidden}, bias_init);
    add(fc1_bias, "mlp.linear_fc1.bias", {ffn}, bias_init);
    add(fc2_bias, "mlp.linear_fc2.bias", {hidden}, bias_init);
  }
  const auto add_half = [&](std::string_view scope, Half::Pass forward_pass,
                            Half::Pass backward_pass, std::initializer_list<Index> indices) {
    halves_.push_back(std::make_unique<Half>(*this, forward_pass, backward_pass, indices));
    modules_.push_back({scope, halves_.back().get()});
  };
  add_half("attn", &TransformerLayer::attention_forward, &TransformerLayer::attention_backward,
           {input_norm_weight, input_norm_bias, qkv_weight, projection_weight, qkv_bias,
            projection_bias});
  add_half("mlp", &TransformerLayer::mlp_forward, &TransformerLayer::mlp_backward,
           {mlp_norm_weight, mlp_norm_bias, fc1_weight, fc2_weight, fc1_bias, fc2_bias});
}

Buffer TransformerLayer::forward(LayerContext& context, const TensorView& input,
                                 SavedActivations& saved) {
  Buffer attended = attention_forward(context, input, saved);
  Buffer output = mlp_forward(context, attended.view(), saved);
  // The norm that is computed again reads its input once more.
  if (recomputes(context, RecomputeModule::layernorm)) {
    keep(context, saved, "attention.output", std::move(attended));
  }
  return output;
}

Buffer TransformerLayer::backward(LayerContext& context, const TensorView& grad_output,
                                  SavedActivations& saved) {
  const Buffer grad_attended = mlp_backward(context, grad_output, saved);
  return attention_backward(context, grad_attended.view(), saved);
}

Buffer TransformerLayer::norm(LayerContext& context, const Norm& norm, const TensorView& input,
                              SavedActivations& saved) {
  return checkpoint(context, RecomputeModule::layernorm, saved, norm.name,
                    [&](LayerContext& run, SavedActivations& kept) {
                      return norm_forward(run, input, parameter(norm.weight), parameter(norm.bias),
                                          kept, norm.name);
                    });
}

void TransformerLayer::keep_or_discard(LayerContext& context, const Norm& norm,
                                       const TensorView& input, Buffer normed,
                                       SavedActivations& saved) {
  const std::string name = norm.name;
  if (recomputes(context, RecomputeModule::layernorm)) {
    saved.borrow(name + ".input", input);
  } else {
    keep(context, saved, name + ".output", std::move(normed));
  }
}

void TransformerLayer::recompute_norm(LayerContext& context, const Norm& norm,
                                      SavedActivations& saved) {
  const std::string name = norm.name;
  recompute(context, saved, name, [&](LayerContext& again) {
    Buffer normed = norm_forward(again, saved.at(name + ".input"), parameter(norm.weight),
                                 parameter(norm.bias), saved, name);
    saved.keep(name + ".output", std::move(normed));
  });
}

Buffer TransformerLayer::attention_forward(LayerContext& context, const TensorView& input,
                                           SavedActivations& saved) {
  const DType dtype = input.dtype;
  const Shape per_head{head_count(), shape_.length, head_size()};

  Buffer normed = norm(context, input_norm, input, saved);
  const Buffer qkv =
      linear_forward(context, normed.view(), parameter(qkv_weight),
                     shape_.bias ? &parameter(qkv_bias) : nullptr, "self_attention.linear_qkv");
  keep_or_discard(context, input_norm, input, std::move(normed), saved);

  Buffer parts[qkv_parts];
  for (std::int32_t part = 0; part < qkv_parts; ++part) {
    parts[part] = make_buffer(context, dtype, per_head, part_names[part]);
    split_heads(context.stream, parts[part].view(), qkv.view(), shape_.sequences, part, qkv_parts,
                op_label(context, part_names[part]));
  }
  const Heads heads{parts[0].view(), parts[1].view(), parts[2].view()};
  Buffer merged = checkpoint(
      context, RecomputeModule::core_attn, saved, "core_attention",
      [&](LayerContext& run, SavedActivations& kept) { return core_attention(run, heads, kept); });
  for (std::int32_t part = 0; part < qkv_parts; ++part) {
    keep(context, saved, part_names[part], std::move(parts[part]));
  }

  Buffer projected = linear_forward(context, merged.view(), parameter(projection_weight),
                                    shape_.bias ? &parameter(projection_bias) : nullptr,
                                    "self_attention.linear_proj");
  keep(context, saved, "merged", std::move(merged));
  const Buffer attended = dropout(context, std::move(projected), shape_.hidden_dropout, saved,
                                  "self_attention.dropout");
  Buffer output = make_buffer(context, dtype, input.shape, "attention residual");
  add(context.stream, output.view(), input, attended.view(),
      op_label(context, "attention residual"));
  return output;
}

Buffer TransformerLayer::core_attention(LayerContext& context, const Heads& heads,
                                        SavedActivations& saved) {
  Stream& stream = context.stream;
  const auto& [query, key, value] = heads;
  const DType dtype = query.dtype;
  const Shape per_score{head_count(), shape_.length, shape_.length};

  const Buffer scores = make_buffer(context, dtype, per_score, "scores");
  gemm(stream, scores.view(), query, false, key, true, op_label(context, "scores"));
  Buffer probabilities = make_buffer(context, dtype, per_score, "probabilities");
  causal_softmax_forward(stream, probabilities.view(), scores.view(), softmax_scale(head_size()),
                         op_label(context, "probabilities"));
  const bool drops = context.training && shape_.attention_dropout != 0.0F;
  Buffer kept_probabilities;
  if (drops) {
    kept_probabilities = make_buffer(context, dtype, per_score, "probabilities");
    stream.copy(kept_probabilities.view(), probabilities.view(),
                op_label(context, "keep probabilities"));
  }
  Buffer dropped = dropout(context, std::move(probabilities), shape_.attention_dropout, saved,
                           "core_attention.dropout");
  const Buffer attended = make_buffer(context, dtype, query.shape, "context");
  gemm(stream, attended.view(), dropped.view(), false, value, false, op_label(context, "context"));
  Buffer merged = make_buffer(context, dtype, {shape_.tokens(), shape_.hidden}, "merged");
  merge_heads(stream, merged.view(), std::array{attended.view()}, shape_.sequences,
              op_label(context, "merged"));
  if (drops) keep(context, saved, "probabilities", std::move(kept_probabilities));
  keep(context, saved, "dropped_probabilities", std::move(dropped));
  return merged;
}

Buffer TransformerLayer::attention_backward(LayerContext& context, const TensorView& grad_output,
                                            SavedActivations& saved) {
  Stream& stream = context.stream;
  const DType dtype = grad_output.dtype;
  const Shape per_head{head_count(), shape_.length, head_size()};
  const Shape per_score{head_count(), shape_.length, shape_.length};

  const Buffer dropped_grad =
      dropout_grad(context, grad_output, shape_.hidden_dropout, saved, "self_attention.dropout");
  const TensorView& grad = dropped_grad.valid() ? dropped_grad.view() : grad_output;
  recompute_norm(context, input_norm, saved);
  const Buffer grad_merged = linear_backward(
      context, grad, saved.at("merged"), parameter(projection_weight),
      shape_.bias ? &parameter(projection_bias) : nullptr, "self_attention.linear_proj");
  const Buffer grad_heads = make_buffer(context, dtype, per_head, "context");
  split_heads(stream, grad_heads.view(), grad_merged.view(), shape_.sequences, 0, 1,
              op_label(context, "merged backward"));

  const TensorView query = saved.at("query");
  const TensorView key = saved.at("key");
  const TensorView value = saved.at("value");
  recompute(context, saved, "core_attention", [&](LayerContext& again) {
    const Buffer merged = core_attention(again, {query, key, value}, saved);
  });
  const TensorView dropped = saved.at("dropped_probabilities");
  Buffer grad_parts[qkv_parts];
  for (std::int32_t part = 0; part < qkv_parts; ++part) {
    grad_parts[part] = make_buffer(context, dtype, per_head, part_names[part]);
  }
  gemm(stream, grad_parts[2].view(), dropped, true, grad_heads.view(), false,
       op_label(context, "value backward"));
  Buffer grad_probabilities = make_buffer(context, dtype, per_score, "probabilities");
  gemm(stream, grad_probabilities.view(), grad_heads.view(), false, value, true,
       op_label(context, "probabilities backward"));
  const bool dropped_any = shape_.attention_dropout != 0.0F;
  if (dropped_any) {
    grad_probabilities = dropout_grad(context, grad_probabilities.view(), shape_.attention_dropout,
                                      saved, "core_attention.dropout");
  }
  const Buffer grad_scores = make_buffer(context, dtype, per_score, "scores");
  causal_softmax_backward(stream, grad_scores.view(), grad_probabilities.view(),
                          dropped_any ? saved.at("probabilities") : dropped,
                          softmax_scale(head_size()), op_label(context, "scores backward"));
  gemm(stream, grad_parts[0].view(), grad_scores.view(), false, key, false,
       op_label(context, "query backward"));
  gemm(stream, grad_parts[1].view(), grad_scores.view(), true, query, false,
       op_label(context, "key backward"));

  const Buffer grad_qkv =
      make_buffer(context, dtype, {shape_.tokens(), 3 * std::int64_t{shape_.hidden}}, "qkv");
  merge_heads(stream, grad_qkv.view(),
              std::array{grad_parts[0].view(), grad_parts[1].view(), grad_parts[2].view()},
              shape_.sequences, op_label(context, "qkv backward"));
  const Buffer grad_normed = linear_backward(
      context, grad_qkv.view(), saved.at("input_layernorm.output"), parameter(qkv_weight),
      shape_.bias ? &parameter(qkv_bias) : nullptr, "self_attention.linear_qkv");
  const Buffer grad_branch =
      norm_backward(context, grad_normed.view(), parameter(input_norm_weight),
                    parameter(input_norm_bias), saved, "input_layernorm");
  Buffer grad_input = make_buffer(context, dtype, grad_output.shape, "grad_input");
  add(stream, grad_input.view(), grad_output, grad_branch.view(),
      op_label(context, "attention residual backward"));
  return grad_input;
}

Buffer TransformerLayer::mlp_forward(LayerContext& context, const TensorView& input,
                                     SavedActivations& saved) {
  Buffer normed = norm(context, mlp_norm, input, saved);
  Buffer contracted = checkpoint(context, RecomputeModule::mlp, saved, "mlp",
                                 [&](LayerContext& run, SavedActivations& kept) {
                                   return feed_forward(run, normed.view(), kept);
                                 });
  keep_or_discard(context, mlp_norm, input, std::move(normed), saved);
  const Buffer branch =
      dropout(context, std::move(contracted), shape_.hidden_dropout, saved, "mlp.dropout");
  Buffer output = make_buffer(context, input.dtype, input.shape, "output");
  add(context.stream, output.view(), input, branch.view(), op_label(context, "mlp residual"));
  return output;
}

Buffer TransformerLayer::feed_forward(LayerContext& context, const TensorView& normed,
                                      SavedActivations& saved) {
  Buffer expanded = linear_forward(context, normed, parameter(fc1_weight),
                                   shape_.bias ? &parameter(fc1_bias) : nullptr, "mlp.linear_fc1");
  Buffer activated = make_buffer(context, normed.dtype, expanded.view().shape, "mlp.activation");
  gelu_forward(context.stream, activated.view(), expanded.view(),
               op_label(context, "mlp.activation"));
  Buffer contracted =
      linear_forward(context, activated.view(), parameter(fc2_weight),
                     shape_.bias ? &parameter(fc2_bias) : nullptr, "mlp.linear_fc2");
  keep(context, saved, "mlp.linear_fc1.output", std::move(expanded));
  keep(context, saved, "mlp.activation.output", std::move(activated));
  return contracted;
}

Buffer TransformerLayer::mlp_backward(LayerContext& context, const TensorView& grad_output,
                                      SavedActivations& saved) {
  Stream& stream = context.stream;
  const DType dtype = grad_output.dtype;
  const Buffer dropped_grad =
      dropout_grad(context, grad_output, shape_.hidden_dropout, saved, "mlp.dropout");
  const TensorView& grad = dropped_grad.valid() ? dropped_grad.view() : grad_output;
  recompute_norm(context, mlp_norm, saved);
  recompute(context, saved, "mlp", [&](LayerContext& again) {
    const Buffer contracted = feed_forward(again, saved.at("pre_mlp_layernorm.output"), saved);
  });
  const Buffer grad_activated =
      linear_backward(context, grad, saved.at("mlp.activation.output"), parameter(fc2_weight),
                      shape_.bias ? &parameter(fc2_bias) : nullptr, "mlp.linear_fc2");
  const TensorView expanded = saved.at("mlp.linear_fc1.output");
  const Buffer grad_expanded = make_buffer(context, dtype, expanded.shape, "mlp.activation");
  gelu_backward(stream, grad_expanded.view(), grad_activated.view(), expanded,
                op_label(context, "mlp.activation backward"));
  const Buffer grad_normed = linear_backward(
      context, grad_expanded.view(), saved.at("pre_mlp_layernorm.output"), parameter(fc1_weight),
      shape_.bias ? &parameter(fc1_bias) : nullptr, "mlp.linear_fc1");
  const Buffer grad_branch = norm_backward(context, grad_normed.view(), parameter(mlp_norm_weight),
                                           parameter(mlp_norm_bias), saved, "pre_mlp_layernorm");
  Buffer grad_input = make_buffer(context, dtype, grad_output.shape, "grad_attended");
  add(stream, grad_input.view(), grad_output, grad_branch.view(),
      op_label(context, "mlp residual backward"));
  return grad_input;
}

}  // namespace cgconform::workloads

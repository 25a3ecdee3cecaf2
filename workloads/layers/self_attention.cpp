#include "workloads/layers/self_attention.hpp"

#include <cmath>
#include <utility>

#include "workloads/layers/checkpoint.hpp"
#include "workloads/layers/delayed_wgrads.hpp"
#include "workloads/layers/layer_ops.hpp"
#include "workloads/layers/shared_rows.hpp"
#include "workloads/ops/attention.hpp"
#include "workloads/ops/elementwise.hpp"
#include "workloads/ops/fused_attention.hpp"
#include "workloads/ops/gemm.hpp"
#include "workloads/ops/packed_attention.hpp"

namespace cgconform::workloads {

namespace {

using matrix::RecomputeModule;

/// Numbers of the parameters after the module's first.
enum Number : std::uint64_t {
  norm_numbers,
  head_numbers = norm_numbers + 2,
  projection_weight_number,
  projection_bias_number = head_numbers + 3,
};

/// Latent attention has more parameters before its heads than there is room for between the others.
constexpr std::uint64_t latent_numbers = 16;

ModuleParameters numbered_from(ModuleParameters made_in, std::uint64_t number) {
  made_in.first_number += number;
  return made_in;
}

float softmax_scale(std::int64_t head_size) {
  return 1.0F / std::sqrt(static_cast<float>(head_size));
}

}  // namespace

SelfAttention::SelfAttention(std::string layer_name, const TransformerShape& shape,
                             const ModuleParameters& made_in)
    : name_(std::move(layer_name)),
      shape_(shape),
      tensor_(made_in.tensor),
      norm_("input_layernorm", shape.hidden, made_in, norm_numbers),
      heads_(make_attention_heads(
          shape, numbered_from(made_in, shape.latent ? latent_numbers : head_numbers))),
      projection_({.name = "self_attention.linear_proj",
                   .inputs = shape.hidden,
                   .outputs = shape.hidden,
                   .bias = shape.bias,
                   .weight_number = projection_weight_number,
                   .bias_number = projection_bias_number},
                  made_in),
      parameters_{norm_.weight(), norm_.bias()} {
  heads_->append_to(parameters_);
  projection_.append_to(parameters_);
}

Buffer SelfAttention::forward(LayerContext& context, const TensorView& input,
                              SavedActivations& saved) {
  const DType dtype = input.dtype;

  Buffer normed = norm_.forward(context, input, saved);
  const HeadLayout wanted =
      is_one_op(context, dtype) ? HeadLayout::side_by_side : HeadLayout::apart;
  HeadBuffers parts = heads_->forward(context, normed.view(), wanted, saved);
  norm_.keep_or_discard(context, input, std::move(normed), saved);
  const HeadViews heads = views(parts);
  Buffer merged = checkpoint(
      context, RecomputeModule::core_attn, saved, "core_attention",
      [&](LayerContext& run, SavedActivations& kept) { return core_attention(run, heads, kept); });
  heads_->keep_or_discard(context, std::move(parts), saved);

  // Where nothing is dropped in between, the product adds the input.
  const bool adds_input = projection_.adds_residual() && !drops(context, shape_.hidden_dropout);
  Buffer projected = projection_.forward(context, merged.view(), adds_input ? input : TensorView{});
  keep(context, saved, "merged", std::move(merged));
  if (adds_input) return projected;
  const Buffer attended = dropout(context, std::move(projected), shape_.hidden_dropout, saved,
                                  "self_attention.dropout", hidden_dropout_stream(tensor_));
  Buffer output = make_buffer(context, dtype, input.shape, "attention residual");
  add(context.stream, output.view(), input, attended.view(),
      op_label(context, "attention residual"));
  return output;
}

bool SelfAttention::fits_one_op(DType dtype) const {
  return fits_fused_attention(dtype, shape_.length, head_size());
}

bool SelfAttention::is_one_op(const LayerContext& context, DType dtype) const {
  return !drops(context, shape_.attention_dropout) && !context.cu_seqlens.valid() &&
         fits_one_op(dtype);
}

std::int64_t SelfAttention::sequences_of(const HeadViews& heads) const {
  const std::int64_t rows = heads[0].shape[0];
  return side_by_side(heads) ? shape_.sequences_of(rows) : rows / own_heads();
}

Buffer SelfAttention::core_attention(LayerContext& context, const HeadViews& heads,
                                     SavedActivations& saved) {
  Stream& stream = context.stream;
  const auto& [query, key, value] = heads;
  const DType dtype = query.dtype;
  const std::int64_t sequences = sequences_of(heads);
  Buffer merged = make_buffer(context, dtype, {sequences * shape_.length, own_width()}, "merged");

  if (is_one_op(context, dtype)) {
    Buffer probabilities = make_buffer(context, dtype, per_score(heads), "probabilities");
    fused_attention_forward(stream, {probabilities.view(), merged.view()}, {query, key, value},
                            softmax_scale(head_size()), op_label(context, "core attention"));
    keep(context, saved, "dropped_probabilities", std::move(probabilities));
    return merged;
  }

  const Buffer scores = make_buffer(context, dtype, per_score(heads), "scores");
  gemm(stream, scores.view(), query, false, key, true, op_label(context, "scores"));
  Buffer probabilities = make_buffer(context, dtype, per_score(heads), "probabilities");
  if (context.cu_seqlens.valid()) {
    packed_softmax_forward(stream, probabilities.view(), scores.view(), context.cu_seqlens,
                           softmax_scale(head_size()), op_label(context, "probabilities"));
  } else {
    causal_softmax_forward(stream, probabilities.view(), scores.view(), softmax_scale(head_size()),
                           op_label(context, "probabilities"));
  }
  const bool drops_any = drops(context, shape_.attention_dropout);
  Buffer kept_probabilities;
  if (drops_any) {
    kept_probabilities = make_buffer(context, dtype, per_score(heads), "probabilities");
    stream.copy(kept_probabilities.view(), probabilities.view(),
                op_label(context, "keep probabilities"));
  }
  Buffer dropped = dropout(context, std::move(probabilities), shape_.attention_dropout, saved,
                           "core_attention.dropout", RngStream::tensor_parallel);
  const Buffer attended = make_buffer(context, dtype, query.shape, "context");
  gemm(stream, attended.view(), dropped.view(), false, value, false, op_label(context, "context"));
  merge_heads(stream, merged.view(), std::array{attended.view()},
              static_cast<std::int32_t>(sequences), op_label(context, "merged"));
  if (drops_any) keep(context, saved, "probabilities", std::move(kept_probabilities));
  keep(context, saved, "dropped_probabilities", std::move(dropped));
  return merged;
}

Buffer SelfAttention::backward(LayerContext& context, const TensorView& grad_output,
                               SavedActivations& saved) {
  Buffer dropped_grad =
      dropout_grad(context, grad_output, shape_.hidden_dropout, saved, "self_attention.dropout");
  const TensorView grad = dropped_grad.valid() ? dropped_grad.view() : grad_output;
  norm_.recompute_output(context, saved);
  const Buffer grad_merged = projection_.backward(context, grad, saved.at("merged"));

  heads_->recompute(context, saved);
  const HeadViews heads = kept_heads(saved);
  recompute(context, saved, "core_attention", [&](LayerContext& again) {
    const Buffer merged = core_attention(again, heads, saved);
  });
  HeadBuffers grad_parts = core_attention_backward(context, heads, grad_merged.view(), saved);

  const Buffer grad_normed =
      heads_->backward(context, std::move(grad_parts), norm_.output(saved), saved);
  keep_for_wgrads(context, dropped_grad);
  return norm_.backward(context, grad_normed.view(), grad_output, saved);
}

HeadBuffers SelfAttention::core_attention_backward(LayerContext& context, const HeadViews& heads,
                                                   const TensorView& grad_merged,
                                                   const SavedActivations& saved) {
  Stream& stream = context.stream;
  const auto& [query, key, value] = heads;
  const DType dtype = query.dtype;
  const TensorView dropped = saved.at("dropped_probabilities");
  HeadBuffers grad_parts;
  for (std::size_t part = 0; part < grad_parts.size(); ++part) {
    if (!heads[part].valid()) continue;
    grad_parts[part] = make_buffer(context, dtype, heads[part].shape, head_names[part]);
  }
  const bool dropped_any = shape_.attention_dropout != 0.0F;
  if (!dropped_any && fits_one_op(dtype)) {
    fused_attention_backward(
        stream, {grad_parts[0].view(), grad_parts[1].view(), grad_parts[2].view()}, grad_merged,
        {dropped, saved.at("merged")}, {query, key, value}, softmax_scale(head_size()),
        op_label(context, "core attention backward"));
    return grad_parts;
  }

  const Buffer attended_grad = make_buffer(context, dtype, query.shape, "context");
  const TensorView grad_heads = attended_grad.view();
  split_heads(stream, grad_heads, grad_merged, shape_.sequences_of(grad_merged.shape[0]), 0, 1,
              op_label(context, "merged backward"));
  gemm(stream, grad_parts[2].view(), dropped, true, grad_heads, false,
       op_label(context, "value backward"));
  Buffer grad_probabilities = make_buffer(context, dtype, per_score(heads), "probabilities");
  gemm(stream, grad_probabilities.view(), grad_heads, false, value, true,
       op_label(context, "probabilities backward"));
  if (dropped_any) {
    grad_probabilities = dropout_grad(context, grad_probabilities.view(), shape_.attention_dropout,
                                      saved, "core_attention.dropout");
  }
  const Buffer grad_scores = make_buffer(context, dtype, per_score(heads), "scores");
  causal_softmax_backward(stream, grad_scores.view(), grad_probabilities.view(),
                          dropped_any ? saved.at("probabilities") : dropped,
                          softmax_scale(head_size()), op_label(context, "scores backward"));
  gemm(stream, grad_parts[0].view(), grad_scores.view(), false, key, false,
       op_label(context, "query backward"));
  gemm(stream, grad_parts[1].view(), grad_scores.view(), true, query, false,
       op_label(context, "key backward"));
  return grad_parts;
}

}  // namespace cgconform::workloads

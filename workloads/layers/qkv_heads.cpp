#include "workloads/layers/qkv_heads.hpp"

#include <cstddef>
#include <string>
#include <utility>

#include "workloads/layers/delayed_wgrads.hpp"
#include "workloads/layers/layer_ops.hpp"
#include "workloads/ops/attention.hpp"
#include "workloads/ops/head_groups.hpp"

namespace cgconform::workloads {

namespace {

constexpr std::int32_t qkv_parts = 3;

/// Numbers of the parameters after the first.
enum Number : std::uint64_t { weight_number = 0, bias_number = 2 };

/// Columns of queries, keys and values in the whole model.
std::vector<std::int64_t> sections(const TransformerShape& shape) {
  const std::int64_t shared = std::int64_t{shape.hidden / shape.heads} * shape.key_value_heads();
  return {shape.hidden, shared, shared};
}

}  // namespace

QkvHeads::QkvHeads(const TransformerShape& shape, const ModuleParameters& made_in)
    : shape_(shape),
      tensor_(made_in.tensor),
      qkv_({.name = "self_attention.linear_qkv",
            .inputs = shape.hidden,
            .outputs = sections(shape)[0] + 2 * sections(shape)[1],
            .bias = shape.bias,
            .weight_number = weight_number,
            .bias_number = bias_number},
           made_in, sections(shape)) {}

void QkvHeads::append_to(std::vector<Parameter>& parameters) const {
  qkv_.append_to(parameters);
}

HeadBuffers QkvHeads::forward(LayerContext& context, const TensorView& normed, HeadLayout wanted,
                              SavedActivations& /*saved*/) const {
  Buffer qkv = qkv_.forward(context, normed);
  HeadBuffers heads;
  if (wanted == HeadLayout::side_by_side && repeat() == 1) {
    heads[0] = std::move(qkv);
    return heads;
  }
  const std::int32_t sequences = shape_.sequences_of(qkv.view().shape[0]);
  const Shape per_head{std::int64_t{sequences} * own_heads(), shape_.length, head_size()};
  for (std::int32_t part = 0; part < qkv_parts; ++part) {
    const auto index = static_cast<std::size_t>(part);
    heads[index] = make_buffer(context, normed.dtype, per_head, head_names[index]);
    if (repeat() == 1) continue;
    const std::int32_t before = part == 0 ? 0 : own_heads() + (part - 1) * own_groups();
    take_heads(context.stream, heads[index].view(), qkv.view(), sequences, before * head_size(),
               part == 0 ? 1 : repeat(), op_label(context, head_names[index]));
  }
  if (repeat() == 1) {
    split_parts(context.stream, std::array{heads[0].view(), heads[1].view(), heads[2].view()},
                qkv.view(), sequences, op_label(context, "query, key, value"));
  }
  return heads;
}

Buffer QkvHeads::merged(LayerContext& context, const HeadViews& grad_heads) const {
  const std::int64_t width = std::int64_t{own_heads() + 2 * own_groups()} * head_size();
  const DType dtype = grad_heads[0].dtype;
  const auto sequences = static_cast<std::int32_t>(grad_heads[0].shape[0] / own_heads());
  Buffer grad_qkv =
      make_buffer(context, dtype, {std::int64_t{sequences} * shape_.length, width}, "qkv");
  const std::string label = op_label(context, "qkv backward");
  if (repeat() == 1) {
    merge_heads(context.stream, grad_qkv.view(), grad_heads, sequences, label);
  } else {
    merge_head_groups(context.stream, grad_qkv.view(), grad_heads, sequences, repeat(), label);
  }
  return grad_qkv;
}

Buffer QkvHeads::backward(LayerContext& context, HeadBuffers grad_heads, const TensorView& normed,
                          const SavedActivations& /*saved*/) const {
  Buffer grad_qkv = side_by_side(views(grad_heads)) ? std::move(grad_heads[0])
                                                    : merged(context, views(grad_heads));
  Buffer grad_normed = qkv_.backward(context, grad_qkv.view(), normed);
  keep_for_wgrads(context, grad_qkv);
  return grad_normed;
}

}  // namespace cgconform::workloads

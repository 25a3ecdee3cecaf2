#include "workloads/layers/moe_preprocess.hpp"

#include <utility>

#include "workloads/layers/layer_ops.hpp"
#include "workloads/ops/expert_rows.hpp"

namespace cgconform::workloads {

namespace {

constexpr const char* slots_name = "preprocess.slots";

}  // namespace

MoePreprocess::MoePreprocess(std::string layer_name, const TransformerShape& shape,
                             const MoeShape& moe, DType dtype)
    : name_(std::move(layer_name)),
      shape_(shape),
      moe_(moe),
      layouts_(moe_layouts(shape, moe, dtype)) {}

Buffer MoePreprocess::forward(LayerContext& context, const TensorView& input,
                              SavedActivations& saved) {
  Buffer bundle = make_bundle(context, layouts_.placed, "moe_preprocess output");
  context.stream.copy(layouts_.common.all_of(bundle.view()), layouts_.common.all_of(input),
                      op_label(context, "moe residual"));
  context.stream.copy(layouts_.placed.part(bundle.view(), "load"),
                      layouts_.routed.part(input, "load"), op_label(context, "expert load"));
  place(context, input, bundle.view());
  if (context.training) {
    const TensorView slots = layouts_.placed.part(bundle.view(), "slots");
    Buffer copy = make_buffer(context, slots.dtype, slots.shape, slots_name);
    context.stream.copy(copy.view(), slots, op_label(context, slots_name));
    saved.keep(slots_name, std::move(copy));
  }
  return bundle;
}

void MoePreprocess::place(LayerContext& context, const TensorView& routed,
                          const TensorView& placed) {
  Stream& stream = context.stream;
  const TensorView slots = layouts_.placed.part(placed, "slots");
  const TensorView sources = layouts_.placed.part(placed, "sources");
  const Buffer overflow = make_buffer(context, DType::int32, {moe_.experts}, "expert overflow");
  const TensorView experts = layouts_.routed.part(routed, "experts");
  const TensorView load = layouts_.routed.part(routed, "load");
  const std::int32_t capacity =
      moe_.capacity > 1 && context.faults.is_on(Fault::f16b_captured_for_less) ? moe_.capacity - 1
                                                                               : moe_.capacity;
  assign_slots(stream, slots, sources, overflow.view(), experts, load, capacity,
               op_label(context, "expert slots"));
  if (context.faults.is_on(Fault::f16a_overflow_not_flagged) ||
      context.faults.is_on(Fault::f16b_captured_for_less)) {
    stream.fill(overflow.view(), 0, op_label(context, "expert overflow"));
  }
  dispatch_rows(stream, layouts_.placed.part(placed, "rows"),
                layouts_.routed.part(routed, "normed"), sources, {}, moe_.top_k,
                op_label(context, "expert rows"));
  if (context.tap == nullptr) return;
  context.tap->tap("routing:slots", slots);
  context.tap->tap("routing:overflow", overflow.view());
}

Buffer MoePreprocess::backward(LayerContext& context, const TensorView& grad_output,
                               SavedActivations& saved) {
  Buffer grad = make_bundle(context, layouts_.routed_grad, "moe_preprocess backward");
  context.stream.copy(layouts_.common.all_of(grad.view()), layouts_.common.all_of(grad_output),
                      op_label(context, "moe residual backward"));
  combine_rows(context.stream, layouts_.routed_grad.part(grad.view(), "normed"),
               layouts_.placed_grad.part(grad_output, "rows"), saved.at(slots_name), {},
               op_label(context, "expert rows backward"));
  return grad;
}

}  // namespace cgconform::workloads

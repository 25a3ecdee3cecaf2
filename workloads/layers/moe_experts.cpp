#include "workloads/layers/moe_experts.hpp"

#include <utility>

#include "workloads/layers/checkpoint.hpp"
#include "workloads/layers/delayed_wgrads.hpp"
#include "workloads/layers/layer_ops.hpp"
#include "workloads/ops/elementwise.hpp"

namespace cgconform::workloads {

namespace {

using matrix::RecomputeModule;

constexpr const char* part_name = "moe_experts";
constexpr const char* input_name = "experts.input";
constexpr const char* loads_name = "experts.loads";
constexpr const char* received_name = "experts.received";
constexpr const char* expanded_name = "experts.linear_fc1.output";
constexpr const char* activated_name = "experts.activation.output";

/// Numbers of the parameters after the module's first.
constexpr std::uint64_t fc1_number = 0;
constexpr std::uint64_t fc2_number = 1;

}  // namespace

MoeExperts::MoeExperts(std::string layer_name, const TransformerShape& shape, const MoeShape& moe,
                       const ModuleParameters& made_in, DType dtype)
    : name_(std::move(layer_name)),
      moe_(moe),
      tensor_(made_in.tensor),
      layouts_(moe_layouts(shape, moe, dtype)),
      own_ffn_(moe.ffn_hidden / tensor_.size()),
      exchange_(shape, moe, tensor_) {
  const std::int64_t hidden = shape.hidden;
  const std::int64_t ffn = moe.ffn_hidden;
  const auto added = [&](const char* parameter_name, const Shape& extents, std::int64_t fan_in,
                         std::uint64_t number, int axis) {
    const ParameterShard own{.axis = axis,
                             .part = tensor_.rank(),
                             .parts = tensor_.size(),
                             .expert_part = moe.group_rank(),
                             .expert_parts = moe.group_size()};
    Parameter parameter = made_in.store.add(parameter_name, extents, weight_init(fan_in),
                                            made_in.first_number + number, own);
    parameter.of_experts = true;
    return parameters_.emplace_back(std::move(parameter));
  };
  fc1_ = GroupedLinear(
      "experts.linear_fc1",
      added("mlp.experts.linear_fc1.weight", {moe.experts, ffn, hidden}, hidden, fc1_number, 1),
      made_in.fp8);
  fc2_ = GroupedLinear(
      "experts.linear_fc2",
      added("mlp.experts.linear_fc2.weight", {moe.experts, hidden, ffn}, ffn, fc2_number, 2),
      made_in.fp8);
}

Buffer MoeExperts::forward(LayerContext& context, const TensorView& input,
                           SavedActivations& saved) {
  Buffer bundle = make_bundle(context, layouts_.worked, "moe_experts output");
  context.stream.copy(layouts_.common.all_of(bundle.view()), layouts_.common.all_of(input),
                      op_label(context, "moe residual"));
  for (const char* part : {"slots", "sources"}) {
    context.stream.copy(layouts_.worked.part(bundle.view(), part),
                        layouts_.placed.part(input, part), op_label(context, part));
  }
  Buffer loads = exchange_.gather_loads(context, layouts_.placed.part(input, "load"));
  const ExchangePlan plan = exchange_.plan(context, loads.view());
  Buffer received;
  Buffer sent_back;
  const TensorView rows = exchange_.dispatch(context, plan, layouts_.placed.part(input, "rows"),
                                             received, "experts dispatch");
  const TensorView own = layouts_.worked.part(bundle.view(), "rows");
  const TensorView results = exchange_.results(context, plan, own, sent_back, "experts results");
  checkpoint(
      context, RecomputeModule::moe, saved, part_name,
      [&](LayerContext& run, SavedActivations& kept) { work(run, plan, rows, results, kept); });
  exchange_.bring_back(context, plan, results, own, "experts combine");
  if (!context.training) return bundle;
  saved.borrow(input_name, input);
  if (loads.valid()) saved.keep(loads_name, std::move(loads));
  if (received.valid()) saved.keep(received_name, std::move(received));
  return bundle;
}

void MoeExperts::work(LayerContext& context, const ExchangePlan& plan, const TensorView& rows,
                      const TensorView& results, SavedActivations& saved) {
  Buffer expanded = plan.make_buffer(context, rows.dtype, own_ffn_, "experts.linear_fc1");
  fc1_.forward(context, plan, rows, expanded.view());
  Buffer activated = activate(context, expanded.view());
  fc2_.forward(context, plan, activated.view(), results);
  keep(context, saved, expanded_name, std::move(expanded));
  if (recomputes(context, RecomputeModule::moe_act)) return;
  keep(context, saved, activated_name, std::move(activated));
}

Buffer MoeExperts::activate(LayerContext& context, const TensorView& expanded) {
  Buffer activated = make_buffer(context, expanded.dtype, expanded.shape, "experts.activation");
  gelu_forward(context.stream, activated.view(), expanded, op_label(context, "experts.activation"));
  return activated;
}

Buffer MoeExperts::backward(LayerContext& context, const TensorView& grad_output,
                            SavedActivations& saved) {
  const TensorView input = saved.at(input_name);
  Buffer grad = make_bundle(context, layouts_.placed_grad, "moe_experts backward");
  context.stream.copy(layouts_.common.all_of(grad.view()), layouts_.common.all_of(grad_output),
                      op_label(context, "moe residual backward"));
  const ExchangePlan plan =
      exchange_.plan(context, saved.contains(loads_name) ? saved.at(loads_name) : TensorView{});
  const TensorView rows =
      saved.contains(received_name) ? saved.at(received_name) : layouts_.placed.part(input, "rows");
  recompute(context, saved, part_name, [&](LayerContext& again) {
    const Buffer results = make_buffer(again, rows.dtype, rows.shape, part_name);
    work(again, plan, rows, results.view(), saved);
  });
  Buffer received;
  Buffer sent_back;
  const TensorView grad_results =
      exchange_.dispatch(context, plan, layouts_.placed_grad.part(grad_output, "rows"), received,
                         "experts combine backward");
  const TensorView own = layouts_.placed_grad.part(grad.view(), "rows");
  const TensorView grad_rows =
      exchange_.results(context, plan, own, sent_back, "experts dispatch backward");
  work_backward(context, plan, grad_results, grad_rows, saved);
  keep_for_wgrads(context, received);
  exchange_.bring_back(context, plan, grad_rows, own, "experts dispatch backward");
  return grad;
}

void MoeExperts::work_backward(LayerContext& context, const ExchangePlan& plan,
                               const TensorView& grad_results, const TensorView& grad_rows,
                               SavedActivations& saved) {
  Stream& stream = context.stream;
  const TensorView expanded = saved.at(expanded_name);
  if (!saved.contains(activated_name)) {
    LayerContext again = recompute_context(context);
    saved.keep(activated_name, activate(again, expanded));
  }
  const TensorView activated = saved.at(activated_name);
  const TensorView rows = saved.contains(received_name)
                              ? saved.at(received_name)
                              : layouts_.placed.part(saved.at(input_name), "rows");
  const Buffer grad_activated =
      plan.make_buffer(context, expanded.dtype, own_ffn_, "experts.activation");
  fc2_.backward(context, plan, grad_results, activated, grad_activated.view());
  Buffer grad_expanded = make_buffer(context, expanded.dtype, expanded.shape, "experts.linear_fc1");
  gelu_backward(stream, grad_expanded.view(), grad_activated.view(), expanded,
                op_label(context, "experts.activation backward"));
  fc1_.backward(context, plan, grad_expanded.view(), rows, grad_rows);
  keep_for_wgrads(context, grad_expanded);
}

}  // namespace cgconform::workloads

#include "workloads/layers/shared_expert.hpp"

#include <array>
#include <string>
#include <utility>

#include "workloads/layers/checkpoint.hpp"
#include "workloads/layers/delayed_wgrads.hpp"
#include "workloads/layers/layer_ops.hpp"
#include "workloads/layers/shared_rows.hpp"
#include "workloads/ops/elementwise.hpp"
#include "workloads/ops/gemm.hpp"

namespace cgconform::workloads {
namespace {

constexpr const char* module_name = "shared_experts";
constexpr const char* fc1_name = "shared_experts.linear_fc1";
constexpr const char* fc2_name = "shared_experts.linear_fc2";
constexpr const char* expanded_name = "shared_experts.linear_fc1.output";
constexpr const char* activated_name = "shared_experts.activation.output";

}  // namespace

SharedExpert::SharedExpert(std::int64_t hidden, std::int64_t ffn_hidden,
                           const ModuleParameters& made_in)
    : tensor_(made_in.tensor),
      fc1_weight_(made_in.store.add("mlp.shared_experts.linear_fc1.weight", {ffn_hidden, hidden},
                                    weight_init(hidden), made_in.first_number,
                                    {.axis = 0, .part = tensor_.rank(), .parts = tensor_.size()})),
      fc2_weight_(made_in.store.add("mlp.shared_experts.linear_fc2.weight", {hidden, ffn_hidden},
                                    weight_init(ffn_hidden), made_in.first_number + 1,
                                    {.axis = 1, .part = tensor_.rank(), .parts = tensor_.size()})) {
  if (made_in.fp8 == nullptr) return;
  fc1_in_8_bits_.emplace(*made_in.fp8, fc1_weight_);
  fc2_in_8_bits_.emplace(*made_in.fp8, fc2_weight_);
}

void SharedExpert::forward(LayerContext& context, const TensorView& output,
                           const TensorView& normed, SavedActivations& saved) const {
  Buffer gathered;
  const TensorView all = gather_rows(context, tensor_, normed, gathered, fc1_name);
  Buffer partial;
  if (tensor_.shares_rows()) partial = make_buffer(context, all.dtype, all.shape, module_name);
  const TensorView results = partial.valid() ? partial.view() : output;
  checkpoint(context, matrix::RecomputeModule::shared_experts, saved, module_name,
             [&](LayerContext& run, SavedActivations& kept) { work(run, results, all, kept); });
  if (!partial.valid()) {
    tensor_.all_reduce(output, context.stream, op_label(context, "shared_experts all-reduce"));
    return;
  }
  tensor_.reduce_scatter(output, results, context.stream,
                         op_label(context, "shared_experts reduce-scatter"));
}

void SharedExpert::work(LayerContext& context, const TensorView& output, const TensorView& normed,
                        SavedActivations& saved) const {
  Buffer expanded = fc1_in_8_bits_
                        ? fc1_in_8_bits_->forward(context, normed, fc1_name)
                        : linear_forward(context, normed, fc1_weight_, nullptr, fc1_name);
  Buffer activated =
      make_buffer(context, normed.dtype, expanded.view().shape, "shared_experts.activation");
  gelu_forward(context.stream, activated.view(), expanded.view(),
               op_label(context, "shared_experts.activation"));
  if (fc2_in_8_bits_) {
    fc2_in_8_bits_->forward(context, std::array{LinearRows{activated.view(), output}}, fc2_name);
  } else {
    gemm(context.stream, output, activated.view(), false, fc2_weight_.weight, true,
         op_label(context, fc2_name));
  }
  keep(context, saved, expanded_name, std::move(expanded));
  keep(context, saved, activated_name, std::move(activated));
}

Buffer SharedExpert::backward(LayerContext& context, const TensorView& grad_output,
                              const TensorView& normed, SavedActivations& saved) const {
  Buffer gathered;
  Buffer gathered_grad;
  const std::string backward_name = std::string(module_name) + " backward";
  const TensorView all = gather_rows(context, tensor_, normed, gathered, backward_name);
  const TensorView grad = gather_rows(context, tensor_, grad_output, gathered_grad, backward_name);
  recompute(context, saved, module_name, [&](LayerContext& again) {
    const Buffer output = make_buffer(again, all.dtype, all.shape, module_name);
    work(again, output.view(), all, saved);
  });
  const auto product_backward = [&](const std::optional<Fp8Linear>& in_8_bits,
                                    const Parameter& weight, const TensorView& grad_y,
                                    const TensorView& x, const char* name) {
    return in_8_bits ? in_8_bits->backward(context, grad_y, x, name)
                     : linear_backward(context, grad_y, x, weight, nullptr, name);
  };
  const Buffer grad_activated =
      product_backward(fc2_in_8_bits_, fc2_weight_, grad, saved.at(activated_name), fc2_name);
  const TensorView expanded = saved.at(expanded_name);
  Buffer grad_expanded =
      make_buffer(context, expanded.dtype, expanded.shape, "shared_experts.activation");
  gelu_backward(context.stream, grad_expanded.view(), grad_activated.view(), expanded,
                op_label(context, "shared_experts.activation backward"));
  Buffer grad_normed =
      product_backward(fc1_in_8_bits_, fc1_weight_, grad_expanded.view(), all, fc1_name);
  for (Buffer* read_later : {&grad_expanded, &gathered, &gathered_grad}) {
    keep_for_wgrads(context, *read_later);
  }
  return sum_rows(context, tensor_, std::move(grad_normed), backward_name);
}

}  // namespace cgconform::workloads

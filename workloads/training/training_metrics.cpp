#include "workloads/training/training_metrics.hpp"

#include "workloads/ops/elementwise.hpp"
#include "workloads/training/host_checks.hpp"

namespace cgconform::workloads {
namespace {

Buffer zero(LegContext& context, DType dtype, const char* label) {
  Buffer buffer(context.allocator(), context.stream(), default_pool, dtype, Shape{1}, label);
  context.stream().fill(buffer.view(), 0, label);
  return buffer;
}

}  // namespace

TrainingMetrics::TrainingMetrics(LegContext& context)
    : context_(context),
      token_count_(zero(context, arithmetic_type(context.model_type()), "token count")),
      one_(zero(context, arithmetic_type(context.model_type()), "one")),
      forwards_on_device_(zero(context, DType::int64, "layer forwards")),
      losses_on_device_(zero(context, DType::fp64, "losses read")) {
  if (context.model_type() == DType::fp64) {
    const double one = 1.0;
    context.stream().upload(one_.view(), &one, false, "one");
  } else {
    const float one = 1.0F;
    context.stream().upload(one_.view(), &one, false, "one");
  }
}

void TrainingMetrics::add_tokens(const TensorView& loss_mask, std::int64_t counted,
                                 bool capturing) {
  if (capturing && context_.fault(Fault::f11c_token_count_by_value)) {
    axpy(context_.stream(), token_count_.view(), static_cast<float>(counted), one_.view(),
         "count tokens");
    return;
  }
  TensorView rows = loss_mask;
  rows.shape = Shape{loss_mask.shape[0], 1};
  // The sum of the only column of the mask.
  bias_grad(context_.stream(), token_count_.view(), rows, "count tokens");
}

void TrainingMetrics::read_loss(const TensorView& loss) {
  losses_read_ += read_scalar(context_.stream(), loss);
}

void TrainingMetrics::observe(std::int32_t step) {
  if (context_.cell.shape.capture_form == matrix::CaptureForm::partitioned) {
    context_.stream().upload(losses_on_device_.view(), &losses_read_, false, "losses read");
    context_.recorder.observe(ObservedQuantity::training_state,
                              {.step = step, .tensor = "losses_read"}, losses_on_device_.view());
  }
  context_.recorder.observe(ObservedQuantity::training_state,
                            {.step = step, .tensor = "token_count"}, token_count_.view());
  context_.stream().upload(forwards_on_device_.view(), &layer_forwards_, false, "layer forwards");
  context_.recorder.observe(ObservedQuantity::training_state,
                            {.step = step, .tensor = "layer_forwards"}, forwards_on_device_.view());
}

}  // namespace cgconform::workloads

#include <fmt/format.h>

#include "workloads/capture/capture_implementation.hpp"
#include "workloads/capture/noted_layers.hpp"

namespace cgconform::workloads {
namespace {

/// Runs everything eagerly: `cuda_graph_impl=none`, and every eager leg.
class NoCapture final : public CaptureImplementation {
 public:
  NoCapture(LayerBody& body, GraphKeeper& keeper) : layers_(body, keeper) {}

  void run_iteration(const IterationCall&, const IterationBody& body) override { body(BodyMode{}); }

  TensorView forward(const LayerCall& call, const TensorView& input) override {
    return layers_.forward(call, input);
  }
  TensorView backward(const LayerCall& call, const TensorView& grad_output) override {
    return layers_.backward(call, grad_output);
  }
  void add_wgrads(const LayerCall& call) override { layers_.add_wgrads(call); }

  void release(std::int32_t microbatch, const LayerRange& layers) override {
    layers_.release(microbatch, layers);
  }
  bool returns_lasting_values() const override { return layers_.keeps_outputs(); }
  void end_schedule_call(const IterationCall&) override {}
  void destroy() override { layers_.clear(); }

 private:
  NotedLayers layers_;
};

}  // namespace

std::string launch_name(const IterationCall& call) {
  const bool training = call.mode == IterationMode::training;
  return fmt::format("step {} {} iteration", call.step, training ? "training" : "validation");
}

std::unique_ptr<CaptureImplementation> make_no_capture(LayerBody& body, GraphKeeper& keeper) {
  return std::make_unique<NoCapture>(body, keeper);
}

std::unique_ptr<CaptureImplementation> make_capture_implementation(LegContext& context,
                                                                   StageModel& model,
                                                                   LayerBody& body,
                                                                   GraphKeeper& keeper) {
  if (context.request.kind == LegKind::graph) {
    if (context.plan.kind == CaptureKind::local) return make_local_capture(context, body, keeper);
    if (context.cell.shape.capture_form == matrix::CaptureForm::partitioned) {
      return make_partitioned_capture(context, body, keeper);
    }
    if (context.plan.kind == CaptureKind::callable_pair) {
      return make_callable_pair_capture(context, model, body, keeper);
    }
    if (context.plan.kind == CaptureKind::full_iteration) {
      return make_full_iteration_capture(context, body, keeper);
    }
    if (context.plan.kind == CaptureKind::transformer_engine) {
      return make_transformer_engine_capture(context, model, body, keeper);
    }
  }
  return make_no_capture(body, keeper);
}

}  // namespace cgconform::workloads

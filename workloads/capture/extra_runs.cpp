#include "workloads/capture/extra_runs.hpp"

#include <cstddef>

namespace cgconform::workloads {

StateOverExtraRuns::StateOverExtraRuns(LegContext& context)
    : context_(context),
      random_(save_rng_state(context.stream(), context.allocator(), default_pool, context.rng,
                             "keep random state over warm-up")) {
  for (const TensorView& state : context.model_state) {
    model_.emplace_back(context.allocator(), context.stream(), default_pool, state.dtype,
                        state.shape, "state of the model kept over warm-up");
    context.stream().copy(model_.back().view(), state, "keep state over warm-up");
  }
}

void StateOverExtraRuns::restore() {
  restore_rng_state(context_.stream(), context_.rng, random_.view(),
                    "restore random state after warm-up");
  if (context_.fault(Fault::f12e_scaling_kept_over_warmup)) return;
  for (std::size_t i = 0; i < model_.size(); ++i) {
    context_.stream().copy(context_.model_state[i], model_[i].view(),
                           "restore state after warm-up");
  }
}

std::uint64_t extra_run(LegContext& context, bool measured, const std::function<void()>& run) {
  if (!measured) {
    context.recorder.mute(true);
    run();
    context.recorder.mute(false);
    return 0;
  }
  // What instruments add to a capture belongs to its launches; what they see here is dropped.
  GraphSlots dropped;
  context.device().settle_counters();
  const LaunchCounters before = context.device().counters();
  const GraphRecording recording(context.recorder, dropped, default_pool);
  run();
  context.device().settle_counters();
  return context.device().counters().eager_launches - before.eager_launches;
}

void zero_gradients(LegContext& context, StageModel& model) {
  for (const StageParameter& parameter : model.parameters()) {
    context.stream().fill(parameter.parameter.main_grad, 0, "zero " + parameter.name);
  }
}

}  // namespace cgconform::workloads

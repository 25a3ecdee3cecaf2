#include "workloads/training/parameter_gather.hpp"
#include "workloads/training/training_leg.hpp"

namespace cgconform::workloads {

std::vector<TensorView> TrainingLeg::checkpoint_tensors() const {
  std::vector<TensorView> tensors;
  for (const ParameterChunk& chunk : model_->parameter_chunks()) tensors.push_back(chunk.weights);
  for (const auto& [name, tensor] : optimizer_->state()) tensors.push_back(tensor);
  for (const TensorView& state : context_.model_state) tensors.push_back(state);
  tensors.push_back(context_.rng.states);
  tensors.push_back(metrics_.token_count());
  return tensors;
}

TrainingState TrainingLeg::save() {
  Stream& stream = context_.stream();
  context_.gather->gather_all();
  TrainingState state{.next_step = next_step_,
                      .layer_forwards = metrics_.layer_forwards(),
                      .losses_read = metrics_.losses_read()};
  for (const TensorView& tensor : checkpoint_tensors()) {
    state.tensors.push_back(save_tensor(stream, tensor));
  }
  if (running_loss_.valid()) state.running_loss = save_tensor(stream, running_loss_view_);
  return state;
}

void TrainingLeg::load(const TrainingState& state) {
  const std::vector<TensorView> tensors = checkpoint_tensors();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    load_tensor(context_.stream(), tensors[i], state.tensors.at(i));
  }
  metrics_.go_on_from(state.layer_forwards, state.losses_read);
  loaded_running_loss_ = state.running_loss;
  next_step_ = context_.fault(Fault::f11f_restart_forgets_step) ? 0 : state.next_step;
  context_.stream().synchronize();
}

void TrainingLeg::make_running_loss(const TensorView& like) {
  Stream& stream = context_.stream();
  running_loss_ =
      Buffer(context_.allocator(), stream, default_pool, like.dtype, like.shape, "running loss");
  running_loss_view_ = running_loss_.view();
  if (loaded_running_loss_.empty()) {
    stream.fill(running_loss_view_, 0, "running loss");
  } else {
    load_tensor(stream, running_loss_view_, loaded_running_loss_);
  }
}

}  // namespace cgconform::workloads

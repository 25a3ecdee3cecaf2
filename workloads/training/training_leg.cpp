#include "workloads/training/training_leg.hpp"

#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "workloads/layers/fp8_state.hpp"
#include "workloads/ops/dropout.hpp"
#include "workloads/training/tensor_ops.hpp"

namespace cgconform::workloads {
namespace {

constexpr std::uint8_t nan_byte = 0xFF;  // a NaN in every floating-point type

template <typename T>
void append(std::vector<T> added, std::vector<T>& all) {
  if (all.empty()) {
    all = std::move(added);
  } else {
    all.insert(all.end(), std::make_move_iterator(added.begin()),
               std::make_move_iterator(added.end()));
  }
}

BatchShape batch_shape(const matrix::Cell& cell) {
  return {.sequences = cell.config.micro_batch_size,
          .length = cell.config.seq_length,
          .vocabulary = cell.shape.vocab_size,
          .packed = cell.config.sequence_packing != matrix::SequencePacking::none,
          .image_tokens = cell.shape.image_tokens,
          .microbatches = cell.config.num_microbatches,
          .runs_out = cell.shape.last_batch != matrix::LastBatch::full};
}

}  // namespace

TrainingLeg::TrainingLeg(const matrix::Cell& cell, const LegRequest& request,
                         const LegEnvironment& environment, const CapturePlan& plan,
                         LegMemory& memory, PhaseClock& clock, LegRecord& record)
    : cell_(cell),
      groups_(cell, environment.gang),
      recorder_(*memory.allocator, *memory.main, request.instrumented),
      rng_(*memory.allocator, *memory.main, environment.seed,
           {.stage = groups_.stage(),
            .tensor_rank = groups_.tensor_rank(),
            .expert_rank = groups_.expert() == nullptr ? 0 : groups_.expert()->rank()}),
      model_(make_stage_model(
          cell, environment.seed, groups_.stage(), *memory.allocator, *memory.main,
          {.tensor = groups_.tensor(), .expert = groups_.expert(), .amax = groups_.amax()})),
      optimizer_(make_stage_optimizer(cell, *model_, *memory.allocator, *memory.main,
                                      environment.gang,
                                      stepped_parameters(cell, *model_, groups_.of_gradients()))),
      context_{cell, request, environment, plan, memory, rng_.state(), recorder_, clock, record},
      body_(context_),
      keeper_(context_, body_),
      loader_(batch_shape(cell), environment.seed,
              {.replicas = cell.config.data_parallel_size, .replica = groups_.replica()}),
      batches_(context_, loader_),
      metrics_(context_),
      timer_(context_),
      iteration_(context_, groups_, *model_, body_, batches_, metrics_),
      implementation_(make_capture_implementation(context_, *model_, body_, keeper_)),
      optimizer_graph_(std::make_unique<OptimizerGraph>(context_, *optimizer_, body_, keeper_)) {
  // A timed leg does not wait for its peers, and messages would count as memory of a leg of cycles;
  // the legs judged before them have agreed.
  const bool agrees = request.kind == LegKind::graph && !request.timed && request.cycles == 0;
  if (environment.gang != nullptr && agrees) {
    context_.launches = &launches_.emplace(*environment.gang, groups_.of_layers());
  }
  context_.loss_scale = optimizer_->loss_scale();
  for (const ParameterChunk& chunk : model_->parameter_chunks()) {
    keeper_.guard("weights", chunk.weights);
    keeper_.guard("gradients", chunk.main_grads);
  }
  for (const StageParameter& parameter : model_->parameters()) {
    keeper_.ledger().add_long_lived(parameter.parameter.weight);
    keeper_.ledger().add_long_lived(parameter.parameter.main_grad);
  }
  for (const auto& [name, tensor] : optimizer_->state()) {
    keeper_.guard(name, tensor);
    keeper_.ledger().add_long_lived(tensor);
  }
  list_observed_parts();
  if (const Fp8State* fp8 = model_->fp8()) {
    context_.model_state.push_back(fp8->memory());
    keeper_.guard("fp8 state", fp8->memory());
    for (const TensorView& tensor : fp8->tensors()) keeper_.ledger().add_long_lived(tensor);
  }
  keeper_.guard("token count", metrics_.token_count());
  keeper_.ledger().add_long_lived(metrics_.token_count());
}

void TrainingLeg::run() {
  context_.device().synchronize();
  context_.record.memory_at_start = sample();
  // What a timed eager leg computes was judged in the legs before it.
  if (context_.request.timed && context_.request.kind == LegKind::eager) recorder_.mute(true);
  if (context_.request.cycles > 0) {
    run_cycles();
    return;
  }
  run_to(context_.plan.training_steps);
}

void TrainingLeg::run_to(std::int32_t end) {
  const std::int32_t interval = context_.request.without_validation ? 0 : cell_.shape.eval_interval;
  for (; next_step_ < end; ++next_step_) {
    training_step(next_step_);
    if (interval > 0 && (next_step_ + 1) % interval == 0) validation_step(next_step_);
  }
  keeper_.ledger().note_end_of_launches();
  if (context_.fault(Fault::f32c_scratch_freed_after_launch) && implementation_->captured()) {
    rng_.reset();
  }
  context_.device().synchronize();
  timer_.finish();
  context_.clock.enter(Phase::verify);
  if (recorder_.instrumented()) inspect_memory();
}

void TrainingLeg::inspect_memory() {
  CachingAllocator& allocator = context_.allocator();
  context_.record.guards_inspected = allocator.guard_bands();
  context_.record.damaged_guards = allocator.damaged_guards(context_.stream());
  context_.record.written_when_free = allocator.written_when_free(context_.stream());
}

void TrainingLeg::training_step(std::int32_t step) {
  const std::int32_t microbatches = cell_.config.num_microbatches;
  const IterationCall call{IterationMode::training, step, leaves_graphs(step)};
  context_.clock.enter(Phase::eager);
  implementation_->begin_step(step);
  context_.clock.enter(Phase::eager);
  const bool whole_step = cell_.shape.capture_form == matrix::CaptureForm::whole_step;
  if (whole_step) {
    optimizer_graph_->prepare(step);
  } else {
    zero_gradients();
  }
  batches_.load(call, microbatches, *implementation_);
  const std::uint64_t forwards_before = body_.training_forwards();
  timer_.begin(step);
  implementation_->run_iteration(call, [&, microbatches, whole_step](const BodyMode& mode) {
    if (whole_step) zero_gradients();
    iteration_.run(call, mode, *implementation_, microbatches);
    if (!whole_step) return;
    optimizer_graph_->run_in_body();
    // Clipping leaves other gradients in their slots than the backwards have.
    if (cell_.shape.clip_grad > 0.0F) hash_gradients(call.step, SlotMoment::production);
  });
  timer_.end();
  implementation_->end_schedule_call(call);
  context_.clock.enter(Phase::eager);
  count_layer_forwards(forwards_before);
  recorder_.gather_copies();
  add_to_running_loss(call);
  observe_gradients(step);
  recorder_.make_copies();
  if (!whole_step) optimizer_graph_->step(step, *implementation_);
  context_.gather->after_step();
  context_.clock.enter(Phase::eager);
  observe_state(step);
  if (context_.request.kind == LegKind::graph) keeper_.growth().after_step();
  poison();
}

bool TrainingLeg::leaves_graphs(std::int32_t step) const {
  if (cell_.shape.last_batch != matrix::LastBatch::eager) return false;
  const bool replayed =
      context_.fault(Fault::f34f_partial_batch_replayed) && implementation_->captured();
  return loader_.shape().is_partial(step, cell_.config.num_microbatches - 1) && !replayed;
}

void TrainingLeg::validation_step(std::int32_t step) {
  const IterationCall call{IterationMode::validation, step};
  const std::int32_t microbatches = cell_.shape.eval_iters;
  batches_.load(call, microbatches, *implementation_);
  implementation_->run_iteration(call, [&, microbatches](const BodyMode& mode) {
    iteration_.run(call, mode, *implementation_, microbatches);
  });
  implementation_->end_schedule_call(call);
  context_.clock.enter(Phase::eager);
  draw_after_validation();
  poison();
}

void TrainingLeg::draw_after_validation() {
  if (!context_.fault(Fault::f07d_validation_draws_from_training)) return;
  Stream& stream = context_.stream();
  const Buffer drawn(context_.allocator(), stream, default_pool, DType::fp32, Shape{1}, "drawn");
  const Buffer mask(context_.allocator(), stream, default_pool, DType::uint8, Shape{1}, "drawn");
  constexpr float probability = 0.5F;
  const char* label = "validation draws";
  stream.fill(drawn.view(), 0, label);
  dropout_forward(stream, drawn.view(), mask.view(), context_.rng.at(RngStream::data_parallel),
                  drawn.view(), probability, 1, label);
}

void TrainingLeg::zero_gradients() {
  const bool never_zeroed =
      context_.fault(Fault::f14b_accumulate_never_zeroed) && implementation_->captured();
  if (never_zeroed) return;
  for (const ParameterChunk& chunk : model_->parameter_chunks()) {
    context_.stream().fill(chunk.main_grads, 0, "zero main gradients");
  }
}

void TrainingLeg::count_layer_forwards(std::uint64_t host_count_before) {
  // F11d: host code of the captured bodies counts, which does not run in replays.
  const bool counted_inside =
      context_.fault(Fault::f11d_metric_updated_inside) && context_.request.kind == LegKind::graph;
  const auto microbatches = static_cast<std::uint64_t>(cell_.config.num_microbatches);
  metrics_.add_layer_forwards(counted_inside ? body_.training_forwards() - host_count_before
                                             : microbatches * model_->layers().size());
}

void TrainingLeg::add_to_running_loss(const IterationCall& call) {
  Stream& stream = context_.stream();
  const std::vector<Buffer>& losses = iteration_.losses(call);
  if (losses.empty() || !losses.front().valid()) return;
  if (!running_loss_.valid()) make_running_loss(losses.front().view());
  if (std::optional<Buffer> canary = body_.faults().take_canary()) {
    TensorView moved = running_loss_view_;
    moved.data = canary->view().data;
    stream.copy(moved, running_loss_view_, "move running loss");
    running_loss_ = std::move(*canary);
    running_loss_view_ = moved;
  }
  for (const Buffer& loss : losses) {
    accumulate(stream, running_loss_view_, loss.view(), "running loss");
  }
  recorder_.observe(ObservedQuantity::loss, {.step = call.step, .tensor = "running_loss"},
                    running_loss_view_);
}

void TrainingLeg::list_observed_parts() {
  for (const StageParameter& entry : model_->parameters()) {
    const Parameter& parameter = entry.parameter;
    gradients_.push_back(
        {{.layer = entry.layer, .tensor = "main_grad:" + parameter.name}, parameter.main_grad});
    if (cell_.shape.clip_grad > 0.0F) {
      clipped_gradients_.push_back(
          {{.layer = entry.layer, .tensor = "clipped_grad:" + parameter.name},
           parameter.main_grad});
    }
    weights_.push_back(
        {{.layer = entry.layer, .tensor = "weight:" + parameter.name}, parameter.weight});
  }
  for (const auto& [name, tensor] : optimizer_->state()) {
    optimizer_state_.push_back({{.tensor = name}, tensor});
  }
  for (const ParameterChunk& chunk : model_->parameter_chunks()) {
    gradient_chunks_.push_back(chunk.main_grads);
    weight_chunks_.push_back(chunk.weights);
  }
  state_chunks_ = optimizer_->state_chunks();
}

void TrainingLeg::hash_gradients(std::int32_t step, SlotMoment moment) {
  if (!recorder_.instrumented()) return;
  for (const ObservedPart& gradient : gradients_) {
    TensorLocation where = gradient.where;
    where.step = step;
    where.microbatch = cell_.config.num_microbatches - 1;
    recorder_.hash(SlotKind::weight_grad, moment, where, gradient.value);
  }
}

void TrainingLeg::observe_gradients(std::int32_t step) {
  hash_gradients(step, SlotMoment::use);
  recorder_.observe_parts(ObservedQuantity::main_grad, step, gradients_, gradient_chunks_);
}

void TrainingLeg::observe_state(std::int32_t step) {
  recorder_.gather_copies();
  if (cell_.shape.clip_grad > 0.0F) {
    recorder_.observe_parts(ObservedQuantity::training_state, step, clipped_gradients_,
                            gradient_chunks_);
  }
  recorder_.observe_parts(ObservedQuantity::weight, step, weights_, weight_chunks_);
  recorder_.observe_parts(ObservedQuantity::optimizer_state, step, optimizer_state_, state_chunks_);
  recorder_.observe(ObservedQuantity::training_state, {.step = step, .tensor = "learning_rate"},
                    optimizer_->scalars().learning_rate);
  if (const Fp8State* fp8 = model_->fp8()) {
    for (const auto& [name, tensor] : fp8->state()) {
      recorder_.observe(ObservedQuantity::training_state, {.step = step, .tensor = name}, tensor);
    }
  }
  metrics_.observe(step);
  recorder_.observe(ObservedQuantity::rng_state, {.step = step, .tensor = "rng_state"},
                    context_.rng.states);
  recorder_.make_copies();
}

void TrainingLeg::poison() {
  if (!recorder_.instrumented()) return;
  Stream& stream = context_.stream();
  context_.allocator().poison_free_blocks(default_pool, nan_byte, stream);
  for (const auto& [name, pool] : keeper_.pools()) {
    context_.allocator().poison_free_blocks(pool, nan_byte, stream);
  }
  batches_.poison();
}

void TrainingLeg::tear_down() {
  context_.clock.enter(Phase::teardown);
  LegRecord& record = context_.record;
  if (launches_) record.agreements = launches_->agreements();
  record.totals = context_.device().counters();
  if (former_) destroy_set(*std::exchange(former_, nullptr), true);
  if (implementation_) destroy_set(*implementation_, false);
  record.teardown.captured_nodes_after =
      context_.device().counters().captured_nodes - record.totals.captured_nodes;
  if (const Communicator* gang = context_.environment.gang; gang != nullptr) {
    record.teardown.communicator_references = gang->live_graph_references();
  }
  record.pools["default"] = context_.allocator().statistics(default_pool);
  record.memory_at_end = sample();
  record.teardown.done = true;
  record.routing = recorder_.read_routing();
  append(recorder_.take_observations(), record.observations);
  append(recorder_.take_slot_records(), record.slots);
}

}  // namespace cgconform::workloads

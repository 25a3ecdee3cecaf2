#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "workloads/training/training_leg.hpp"

namespace cgconform::workloads {

MemorySample TrainingLeg::sample() const {
  // The process is looked at where cycles are compared.
  return sample_memory(context_.memory, recorder_.pool(), context_.request.cycles > 0);
}

void TrainingLeg::release_iteration() {
  iteration_.clear();
  batches_.clear();
  running_loss_.reset();
}

void TrainingLeg::destroy_set(CaptureImplementation& set, bool replaced) {
  if (context_.fault(Fault::f32d_buffers_freed_before_graphs)) release_iteration();
  keeper_.growth().before_destruction(replaced);
  if (optimizer_graph_) optimizer_graph_->destroy();
  set.destroy();
  optimizer_graph_.reset();
  if (!replaced) keeper_.growth().after_cleanup();
  release_iteration();
  keeper_.destroy_pools();
  context_.device().synchronize();
  batches_.trim();
  context_.allocator().trim(default_pool);
  keeper_.await_releases();
}

void TrainingLeg::meet_peers() {
  if (context_.environment.gang == nullptr) return;
  const std::string met = "cycle";
  const std::vector<std::string> texts = context_.environment.gang->exchange(met);
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    if (texts[rank] == met) continue;
    throw DeviceError(
        ErrorCategory::communicator_error, met,
        fmt::format("rank {} does not go on with the cycles, it says: {}", rank, texts[rank]));
  }
}

/// Every cycle is a small training of its own, with the same steps. Nothing is recorded but what
/// the leg holds when the cycle's graphs are gone, so that the records of a cycle do not count.
void TrainingLeg::run_cycles() {
  recorder_.mute(true);
  for (std::int32_t cycle = 0; cycle < context_.request.cycles; ++cycle) {
    if (cycle > 0) {
      implementation_ = make_capture_implementation(context_, *model_, body_, keeper_);
      optimizer_graph_ = std::make_unique<OptimizerGraph>(context_, *optimizer_, body_, keeper_);
    }
    const std::uint64_t launches_before = context_.device().counters().graph_launches;
    for (std::int32_t step = 0; step < context_.plan.training_steps; ++step) training_step(step);
    context_.device().synchronize();
    context_.record.cycles.push_back(
        {.captures = context_.record.graphs.size(),
         .replays = context_.device().counters().graph_launches - launches_before});
    context_.clock.enter(Phase::teardown);
    const bool last = cycle + 1 == context_.request.cycles;
    if (former_) destroy_set(*std::exchange(former_, nullptr), true);
    if (context_.fault(Fault::f30e_old_set_destroyed_late) && !last) {
      former_ = std::move(implementation_);
    } else {
      destroy_set(*implementation_, true);
    }
    keeper_.forget_graphs();
    // Messages of peers that run ahead would count as memory of this rank.
    meet_peers();
    context_.record.cycles.back().after = sample();
    meet_peers();
  }
  recorder_.mute(false);
}

}  // namespace cgconform::workloads

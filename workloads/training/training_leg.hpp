#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "workloads/capture/capture_implementation.hpp"
#include "workloads/capture/optimizer_graph.hpp"
#include "workloads/training/batch_slots.hpp"
#include "workloads/training/data_loader.hpp"
#include "workloads/training/iteration.hpp"
#include "workloads/training/leg_context.hpp"
#include "workloads/training/parallel_groups.hpp"
#include "workloads/training/stage_model.hpp"
#include "workloads/training/step_timer.hpp"
#include "workloads/training/training_metrics.hpp"
#include "workloads/training/training_state.hpp"

namespace cgconform::workloads {

/// The training loop of one leg on one rank: steps of zeroing, loading, forwards and backwards,
/// optimizer and observation, with validation in between.
class TrainingLeg {
 public:
  TrainingLeg(const matrix::Cell& cell, const LegRequest& request,
              const LegEnvironment& environment, const CapturePlan& plan, LegMemory& memory,
              PhaseClock& clock, LegRecord& record);

  void run();
  /// Runs the steps before `end` only, and what follows the last step of the leg where it is that.
  void run_to(std::int32_t end);
  /// What a restarted leg goes on from. Between steps, with nothing in flight.
  TrainingState save();
  void load(const TrainingState& state);
  /// Destroys graphs, then memory, and moves what was recorded into the record. Also called after
  /// an error.
  void tear_down();
  const ParallelGroups& groups() const { return groups_; }

 private:
  void run_cycles();
  /// The tensors of a checkpoint, in one order.
  std::vector<TensorView> checkpoint_tensors() const;
  void make_running_loss(const TensorView& like);
  /// Destroys a set of graphs and the memory it used, because another set replaces it or for good.
  void destroy_set(CaptureImplementation& set, bool replaced);
  void release_iteration();
  /// All ranks of the gang pass together.
  void meet_peers();
  MemorySample sample() const;
  void training_step(std::int32_t step);
  void validation_step(std::int32_t step);
  /// True where the step's last micro-batch is partial and runs eagerly.
  bool leaves_graphs(std::int32_t step) const;
  void zero_gradients();
  void count_layer_forwards(std::uint64_t host_count_before);
  void add_to_running_loss(const IterationCall& call);
  /// Collects what is observed at every step.
  void list_observed_parts();
  void hash_gradients(std::int32_t step, SlotMoment moment);
  void observe_gradients(std::int32_t step);
  void observe_state(std::int32_t step);
  void poison();
  /// F07d: validation draws a random number of training's.
  void draw_after_validation();
  /// Looks for writes outside blocks.
  void inspect_memory();

  const matrix::Cell& cell_;
  ParallelGroups groups_;
  Recorder recorder_;
  RngTracker rng_;
  std::unique_ptr<StageModel> model_;
  std::unique_ptr<StageOptimizer> optimizer_;
  std::optional<LaunchLedger> launches_;
  LegContext context_;
  LayerBody body_;
  GraphKeeper keeper_;
  DataLoader loader_;
  BatchSlots batches_;
  TrainingMetrics metrics_;
  StepTimer timer_;
  Iteration iteration_;
  std::unique_ptr<CaptureImplementation> implementation_;
  std::unique_ptr<OptimizerGraph> optimizer_graph_;  ///< of the same set of graphs
  std::unique_ptr<CaptureImplementation> former_;    ///< F30e: a set that waits for its successor
  std::vector<ObservedPart> gradients_;
  std::vector<ObservedPart> clipped_gradients_;  ///< as the optimizer has left them
  std::vector<ObservedPart> weights_;
  std::vector<ObservedPart> optimizer_state_;
  std::vector<TensorView> gradient_chunks_;
  std::vector<TensorView> weight_chunks_;
  std::vector<TensorView> state_chunks_;
  std::int32_t next_step_ = 0;
  std::vector<std::byte> loaded_running_loss_;
  Buffer running_loss_;
  TensorView running_loss_view_;
};

}  // namespace cgconform::workloads

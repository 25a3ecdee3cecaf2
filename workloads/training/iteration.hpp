#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "workloads/capture/capture_implementation.hpp"
#include "workloads/parallel/pipeline_link.hpp"
#include "workloads/parallel/pipeline_schedule.hpp"
#include "workloads/training/batch_slots.hpp"
#include "workloads/training/stage_model.hpp"

namespace cgconform::workloads {

/// The code of one schedule call on a pipeline stage: runs through the schedule, moves activations
/// and gradients between stages, and calls the implementation for every layer.
class Iteration {
 public:
  Iteration(LegContext& context, StageModel& model, LayerBody& body, BatchSlots& batches);

  void run(const IterationCall& call, const BodyMode& mode, CaptureImplementation& implementation,
           std::int32_t microbatches);
  /// Losses of the mode's last call on the last stage, in micro-batch order; the same memory after
  /// every replay.
  const std::vector<Buffer>& losses(IterationMode mode) const;
  void clear();

 private:
  /// What a micro-batch has in flight on this stage.
  struct InFlight {
    Buffer input;  ///< embedded or received
    TensorView output;
    SavedActivations head_saved;
    Buffer grad;  ///< of the output: the loss's or received
    TensorView grad_input;
  };

  void forward(const IterationCall& call, std::int32_t microbatch);
  void backward(const IterationCall& call, std::int32_t microbatch);
  void transfer(const PipelineAction& action);
  /// Layer tensors are seen wherever layers are called outside graphs, and in instrumented legs.
  bool observes_layers() const;
  /// Nothing more happens to the micro-batch on this stage.
  void finish(std::int32_t microbatch);
  void add_gradients_where_not_fused(const LayerCall& call);
  Buffer receive_buffer(const char* label);
  LayerContext context_for(const IterationCall& call, std::int32_t microbatch,
                           std::string_view part) const;
  LayerCall layer_call(const IterationCall& call, std::int32_t microbatch, std::size_t local) const;

  LegContext& context_;
  StageModel& model_;
  LayerBody& body_;
  BatchSlots& batches_;
  PipelineLink link_;
  FaultSwitches no_faults_;
  CaptureImplementation* implementation_ = nullptr;
  BodyMode mode_;
  IterationCall call_;
  std::map<std::int32_t, InFlight> in_flight_;
  std::map<IterationMode, std::vector<Buffer>> losses_;
};

}  // namespace cgconform::workloads

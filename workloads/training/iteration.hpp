#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "workloads/capture/capture_implementation.hpp"
#include "workloads/parallel/pipeline_link.hpp"
#include "workloads/parallel/pipeline_schedule.hpp"
#include "workloads/training/batch_slots.hpp"
#include "workloads/training/gradient_reduction.hpp"
#include "workloads/training/host_checks.hpp"
#include "workloads/training/parallel_groups.hpp"
#include "workloads/training/parameter_gather.hpp"
#include "workloads/training/stage_model.hpp"
#include "workloads/training/training_metrics.hpp"

namespace cgconform::workloads {

/// The code of one schedule call on a pipeline stage: runs through the schedule, moves activations
/// and gradients between stages, calls the implementation for every layer, and says which gradients
/// may be reduced over replicas.
class Iteration {
 public:
  Iteration(LegContext& context, const ParallelGroups& groups, StageModel& model, LayerBody& body,
            BatchSlots& batches, TrainingMetrics& metrics);

  void run(const IterationCall& call, const BodyMode& mode, CaptureImplementation& implementation,
           std::int32_t microbatches);
  /// Losses of a call on the last stage, in micro-batch order; the same memory after every replay,
  /// which calls with a partial micro-batch leave alone.
  const std::vector<Buffer>& losses(const IterationCall& call) const;
  void clear();

 private:
  /// What a micro-batch has in flight in a chunk of this stage.
  struct InFlight {
    Buffer input;  ///< embedded or received
    TensorView output;
    SavedActivations head_saved;
    Buffer grad;  ///< of the output: the loss's or received
    TensorView grad_input;
  };
  /// A micro-batch in a chunk.
  struct Pass {
    std::int32_t microbatch = 0;
    std::int32_t chunk = 0;
    friend auto operator<=>(const Pass&, const Pass&) = default;
  };

  using LossKey = std::pair<IterationMode, bool>;  ///< mode, with a partial micro-batch

  void forward(const IterationCall& call, const Pass& pass);
  void backward(const IterationCall& call, const Pass& pass);
  void transfer(const PipelineAction& action);
  /// The host reads of a training micro-batch's loss that the cell asks for.
  void read_loss(const TensorView& loss, std::int32_t step, std::int32_t microbatch);
  /// Layer tensors are seen wherever layers are called outside graphs, and in instrumented legs.
  bool observes_layers() const;
  /// Where what is observed does not last until its pass is finished.
  bool observes_at_once() const;
  /// The faults of steps that are captured, or that follow a capture.
  const FaultSwitches& graph_faults() const;
  /// Nothing more happens to the micro-batch in this chunk.
  void finish(const Pass& pass);
  const ModelChunk& chunk(const Pass& pass) const {
    return model_.chunks()[static_cast<std::size_t>(pass.chunk)];
  }
  /// The part's gradients are complete where this was the step's last backward of it.
  void gradients_ready(const Pass& pass, ModelPart part, std::int32_t layer = -1);
  void add_gradients_where_not_fused(const LayerCall& call);
  /// The layer's weight gradients of the micro-batch are added, or have waited until now.
  void finish_wgrads(const LayerCall& call, const Pass& pass);
  /// After the gradient of a chunk's input was sent, which its first layer's weight gradients leave
  /// the way to.
  void finish_backward(const Pass& pass);
  /// For the hidden states of a micro-batch, or their gradient.
  Buffer receive_buffer(std::int32_t microbatch, const char* label);
  LayerContext context_for(const IterationCall& call, std::int32_t microbatch,
                           std::string_view part) const;
  LayerCall layer_call(const IterationCall& call, const Pass& pass, std::size_t local) const;

  LegContext& context_;
  StageModel& model_;
  LayerBody& body_;
  BatchSlots& batches_;
  TrainingMetrics& metrics_;
  PipelineLink link_;
  GradientReduction reduction_;
  ParameterGather gather_;
  HostChecks checks_;
  FaultSwitches no_faults_;
  CaptureImplementation* implementation_ = nullptr;
  BodyMode mode_;
  IterationCall call_;
  std::int32_t microbatches_ = 0;
  std::map<Pass, InFlight> in_flight_;
  std::map<LossKey, std::vector<Buffer>> losses_;
};

}  // namespace cgconform::workloads

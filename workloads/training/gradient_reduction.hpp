#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "workloads/device/communicator.hpp"
#include "workloads/training/leg_context.hpp"
#include "workloads/training/stage_model.hpp"

namespace cgconform::workloads {

/// Sums gradients over the replicas of a stage, in buckets as Megatron's DDP makes them: the
/// parameters of a chunk from last to first, closed at the size the cell asks for. With overlap a
/// bucket is reduced on a stream of its own as soon as the last backward of each of its parameters
/// is enqueued, and after it; without, all are at the end of the step. Does nothing without
/// replicas.
class GradientReduction {
 public:
  /// `replicas` is null where there is one.
  GradientReduction(LegContext& context, const StageModel& model, Communicator* replicas);

  /// Before the backwards of a step.
  void begin(std::int32_t step);
  /// The step's last backward of the part, or of the layer, is enqueued.
  void ready(ModelPart part, std::int32_t layer);
  /// Orders later work of the leg after all reductions. Throws InternalError where a gradient never
  /// became ready.
  void finish();
  /// Gives the memory of the buckets back.
  void clear() { buckets_.clear(); }

 private:
  struct Bucket {
    std::vector<StageParameter> parameters;
    std::int64_t elements = 0;
    Buffer flat;  ///< the gradients of the parameters, one after the other
    std::size_t waiting = 0;
    bool launched = false;
  };

  void fill_buckets(const StageModel& model);
  void launch(std::size_t index);

  LegContext& context_;
  Communicator* replicas_;
  bool overlaps_;
  std::int32_t step_ = 0;
  std::unique_ptr<Stream> stream_;
  std::vector<Bucket> buckets_;
};

}  // namespace cgconform::workloads

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "workloads/device/communicator.hpp"
#include "workloads/training/leg_context.hpp"
#include "workloads/training/stage_model.hpp"

namespace cgconform::workloads {

/// The ranks that gradients are summed over; null where there is one.
struct ReplicaGroups {
  Communicator* replicas = nullptr;         ///< of a stage
  Communicator* expert_replicas = nullptr;  ///< of the experts that this rank holds
  Communicator* tensor = nullptr;           ///< that hold the parts of layers
};

/// Sums gradients over the ranks that hold the same parameters, in buckets as Megatron's DDP makes
/// them: the parameters of a chunk from last to first, those of experts apart, closed at the size
/// the cell asks for. With overlap a bucket is reduced on a stream of its own as soon as the last
/// backward of each of its parameters is enqueued, and after it; without, all are at the end of the
/// step. Gradients of which tensor-parallel ranks have summands are summed over those ranks at the
/// very end. Does nothing where there is nothing to sum.
class GradientReduction {
 public:
  GradientReduction(LegContext& context, const StageModel& model, const ReplicaGroups& groups);

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
    Communicator* ranks = nullptr;  ///< that it is summed over
    std::vector<StageParameter> parameters;
    std::int64_t elements = 0;
    Buffer flat;  ///< the gradients of the parameters, one after the other
    std::size_t waiting = 0;
    bool launched = false;
    bool at_end = false;  ///< after all that are not
  };

  /// The parameters of one group, taken by `belongs`.
  void fill_buckets(const StageModel& model, Communicator* ranks, bool at_end,
                    bool (*belongs)(const Parameter& parameter));
  void launch(std::size_t index);

  LegContext& context_;
  bool overlaps_;
  std::int32_t step_ = 0;
  std::unique_ptr<Stream> stream_;
  std::vector<Bucket> buckets_;
};

}  // namespace cgconform::workloads

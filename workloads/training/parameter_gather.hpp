#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "workloads/device/communicator.hpp"
#include "workloads/training/gradient_reduction.hpp"
#include "workloads/training/leg_context.hpp"
#include "workloads/training/stage_model.hpp"

namespace cgconform::workloads {

/// Parameters side by side in memory that the ranks that hold them gather together.
struct ParameterBucket {
  ParameterChunk memory;
  bool of_experts = false;
  std::vector<std::pair<ModelPart, std::int32_t>> owners;  ///< part and layer, -1 outside of layers
};

/// The stage's parameters in buckets, in the order of a forward: each of at least `bucket_size`
/// elements, but where parameters of experts, which have buckets of their own, begin or end.
std::vector<ParameterBucket> parameter_buckets(const StageModel& model, std::int64_t bucket_size);

/// Replica `rank` of `replicas`' share of memory: about equal ones side by side, which a small
/// bucket may not have for all.
TensorView share_of(const TensorView& memory, int rank, int replicas);

/// The shares that this rank's optimizer steps where parameters are shared out
/// (`use_distributed_optimizer`): those of experts over the ranks that hold the same ones, others
/// over the replicas. All parameters where they are not.
std::vector<ParameterChunk> stepped_parameters(const matrix::Cell& cell, const StageModel& model,
                                               const ReplicaGroups& groups);

/// Gathers the parameters that replicas have stepped share by share: after the step, or with
/// `overlap_param_gather` bucket by bucket beside the next forward. A hook before each layer waits
/// for what the layer reads and starts the gather of the next bucket. The hooks are off in the
/// first step, but for iterations that are captured; graphs of layers do not hold them, those of
/// iterations do.
class ParameterGather {
 public:
  ParameterGather(LegContext& context, const StageModel& model, const ReplicaGroups& groups);

  /// The optimizer has stepped.
  void after_step();
  /// Gathers everything on the main stream, where it is not: before weights are saved.
  void gather_all();

  /// A schedule call begins. `first_step`: one without hooks. `replaying`: in part from graphs.
  void begin(std::int32_t step, bool first_step, bool capturing, bool replaying);
  /// The hooks: before the forward of a part of the model, or of a layer, which are run once a
  /// call.
  void before(ModelPart part, std::int32_t layer = -1);
  void before_layer(std::int32_t layer) { before(ModelPart::layer, layer); }
  /// The forwards are enqueued.
  void finish();
  /// F19j: the gather of a layer's parameters on the stream that is being captured.
  void gather_inside(std::int32_t layer);

 private:
  struct Bucket {
    ParameterBucket parameters;
    Communicator* ranks = nullptr;    ///< that have a share of it
    std::unique_ptr<Event> gathered;  ///< null until the call's gather is launched
    bool awaited = false;
  };

  bool holds(const Bucket& bucket, ModelPart part, std::int32_t layer) const;
  void launch(std::size_t index);
  void wait(std::size_t index);
  static void gather(const Bucket& bucket, Stream& stream, const std::string& label);

  LegContext& context_;
  bool overlaps_ = false;
  std::unique_ptr<Stream> stream_;
  std::vector<Bucket> buckets_;  ///< those that several ranks share
  bool hooks_on_ = false;
  bool capturing_ = false;
  std::int32_t step_ = -1;
};

}  // namespace cgconform::workloads

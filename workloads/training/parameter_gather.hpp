#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "workloads/device/communicator.hpp"
#include "workloads/training/leg_context.hpp"
#include "workloads/training/stage_model.hpp"

namespace cgconform::workloads {

/// Parameters side by side in memory that replicas gather together.
struct ParameterBucket {
  ParameterChunk memory;
  std::vector<std::pair<ModelPart, std::int32_t>> owners;  ///< part and layer, -1 outside of layers
};

/// The stage's parameters in buckets of at least `bucket_size` elements, in the order of a forward.
std::vector<ParameterBucket> parameter_buckets(const StageModel& model, std::int64_t bucket_size);

/// Replica `rank` of `replicas`' share of memory: about equal ones side by side, which a small
/// bucket may not have for all.
TensorView share_of(const TensorView& memory, int rank, int replicas);

/// The shares that this replica's optimizer steps where parameters are shared out
/// (`use_distributed_optimizer`); all parameters where they are not.
std::vector<ParameterChunk> stepped_parameters(const matrix::Cell& cell, const StageModel& model,
                                               const Communicator* replicas);

/// Gathers the parameters that replicas have stepped share by share: after the step, or with
/// `overlap_param_gather` bucket by bucket beside the next forward. A hook before each layer waits
/// for what the layer reads and starts the gather of the next bucket. The hooks are off in the
/// first step, but for iterations that are captured; graphs of layers do not hold them, those of
/// iterations do.
class ParameterGather {
 public:
  ParameterGather(LegContext& context, const StageModel& model, Communicator* replicas);

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
    std::unique_ptr<Event> gathered;  ///< null until the call's gather is launched
    bool awaited = false;
  };

  bool holds(const Bucket& bucket, ModelPart part, std::int32_t layer) const;
  void launch(std::size_t index);
  void wait(std::size_t index);
  void gather(const Bucket& bucket, Stream& stream, const std::string& label);

  LegContext& context_;
  Communicator* replicas_ = nullptr;  ///< null where nothing is gathered
  bool overlaps_ = false;
  std::unique_ptr<Stream> stream_;
  std::vector<Bucket> buckets_;
  bool hooks_on_ = false;
  bool capturing_ = false;
  std::int32_t step_ = -1;
};

}  // namespace cgconform::workloads

#pragma once

#include <cstdint>

#include "workloads/capture/capture_implementation.hpp"
#include "workloads/training/stage_model.hpp"

namespace cgconform::workloads {

/// Runs the optimizer's step. With `optimizer_cuda_graph` a graph leg captures it as a graph of its
/// own, beside whatever the implementation captures, as Megatron's optimizer wrapper does: call
/// number `cuda_graph_warmup_steps`, counted from 0, captures and then replays. The learning rate
/// is put in place before, outside of the graph.
class OptimizerGraph {
 public:
  OptimizerGraph(LegContext& context, StageOptimizer& optimizer, LayerBody& body,
                 GraphKeeper& keeper);

  void step(std::int32_t step, const CaptureImplementation& implementation);
  /// The same in two calls, where the step belongs to the iteration: what the host does before the
  /// iteration, and the step itself as a part of its body.
  void prepare(std::int32_t step);
  void run_in_body();
  void destroy() { keeper_.destroy(graph_); }

 private:
  void run(std::int32_t step);
  void capture(std::int32_t step, const CaptureImplementation& implementation);
  /// The scalars the captured kernels read: the optimizer's own, or what the faults F11a, F11b
  /// and F11g freeze.
  void choose_scalars();
  TensorView frozen(const TensorView& scalar, Buffer& holder);

  LegContext& context_;
  StageOptimizer& optimizer_;
  LayerBody& body_;
  GraphKeeper& keeper_;
  bool captures_;
  bool copies_inside_;  ///< F11e
  std::int32_t calls_ = 0;
  std::uint64_t eager_launches_ = 0;
  OptimizerScalars scalars_;
  Buffer frozen_learning_rate_;
  Buffer frozen_step_;
  Buffer frozen_clip_factor_;
  CapturedGraph graph_;
};

}  // namespace cgconform::workloads

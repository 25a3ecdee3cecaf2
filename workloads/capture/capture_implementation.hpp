#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "workloads/capture/capture_window.hpp"
#include "workloads/capture/layer_body.hpp"
#include "workloads/training/leg_context.hpp"
#include "workloads/training/stage_model.hpp"

namespace cgconform::workloads {

enum class IterationMode : std::uint8_t { training, validation };

/// One schedule call: the forwards (and backwards) of all micro-batches of a step.
struct IterationCall {
  IterationMode mode = IterationMode::training;
  std::int32_t step = 0;
  bool partial = false;  ///< a micro-batch holds fewer sequences than graphs are captured for
};

/// `step 3 training iteration`: a schedule call as ranks name it to each other.
std::string launch_name(const IterationCall& call);

/// The code of an iteration; runs through the schedule of the stage and calls back into the
/// implementation for every layer.
using IterationBody = std::function<void(const BodyMode& mode)>;

/// An implementation of CUDA graphs for training: decides what is captured, when, and how it is
/// replayed. The schedule calls it for the whole iteration and for every layer.
class CaptureImplementation {
 public:
  virtual ~CaptureImplementation() = default;

  /// Before training step `step`: its gradients are not zeroed yet, nothing of it has run.
  virtual void begin_step(std::int32_t /*step*/) {}
  virtual void run_iteration(const IterationCall& call, const IterationBody& body) = 0;
  /// Returns the layer's output, which stays readable until `release`.
  virtual TensorView forward(const LayerCall& call, const TensorView& input) = 0;
  /// Returns the gradient of the layer's input, which stays readable until `release`.
  virtual TensorView backward(const LayerCall& call, const TensorView& grad_output) = 0;
  /// Adds the weight gradients that the layer's backward has left for later, before `release`.
  virtual void add_wgrads(const LayerCall& call) = 0;
  /// All work of these layers on the micro-batch, sends included, is enqueued.
  virtual void release(std::int32_t microbatch, const LayerRange& layers) = 0;
  /// The host reads what the work before it has computed. What `read` refers to keeps its address
  /// where the iteration is a graph.
  virtual void read_on_host(const std::function<void()>& read) { read(); }
  /// The schedule call has ended.
  virtual void end_schedule_call(const IterationCall& call) = 0;

  /// True where what `forward` and `backward` return also stays as it is until `release`.
  virtual bool returns_lasting_values() const { return false; }
  /// True where batches must lie in slots that keep their addresses.
  virtual bool needs_static_batches() const { return false; }
  /// Replays of a mode's iteration graph so far, or 0 where iterations are not graphs.
  virtual std::uint64_t iteration_replays(IterationMode) const { return 0; }
  /// The pool that graphs of iterations share with those beside them; the default pool where there
  /// is none.
  virtual PoolId iteration_pool() const { return default_pool; }
  /// True once training iterations run from graphs.
  virtual bool captured() const { return false; }

  /// Destroys graphs, then the memory they used. Nothing may be in flight.
  virtual void destroy() = 0;
};

std::unique_ptr<CaptureImplementation> make_no_capture(LayerBody& body, GraphKeeper& keeper);
std::unique_ptr<CaptureImplementation> make_local_capture(LegContext& context, LayerBody& body,
                                                          GraphKeeper& keeper);
std::unique_ptr<CaptureImplementation> make_full_iteration_capture(LegContext& context,
                                                                   LayerBody& body,
                                                                   GraphKeeper& keeper);

std::unique_ptr<CaptureImplementation> make_partitioned_capture(LegContext& context,
                                                                LayerBody& body,
                                                                GraphKeeper& keeper);
std::unique_ptr<CaptureImplementation> make_callable_pair_capture(LegContext& context,
                                                                  StageModel& model,
                                                                  LayerBody& body,
                                                                  GraphKeeper& keeper);
std::unique_ptr<CaptureImplementation> make_transformer_engine_capture(LegContext& context,
                                                                       StageModel& model,
                                                                       LayerBody& body,
                                                                       GraphKeeper& keeper);

/// The implementation a leg runs on a stage: the plan's in a graph leg, none in an eager leg.
std::unique_ptr<CaptureImplementation> make_capture_implementation(LegContext& context,
                                                                   StageModel& model,
                                                                   LayerBody& body,
                                                                   GraphKeeper& keeper);

}  // namespace cgconform::workloads

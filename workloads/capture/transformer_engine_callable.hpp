#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "workloads/capture/capture_implementation.hpp"

namespace cgconform::workloads {

/// Where the graphs of one callable are made, and what they stand on.
struct CallableCapture {
  std::int32_t step = 0;
  PoolId pool = default_pool;
  std::uint64_t hash_before = 0;  ///< of the guarded tensors, before the warm-up of all callables
  TensorView prefetched;  ///< F06c: the input slot of the next forward, which this one fills too
};

/// A forward and a backward graph of a layer, or of one of its modules, for one micro-batch,
/// captured ahead of time; a third graph where the backward leaves weight gradients for later.
/// Input and gradient slots belong to the caller, who lends them to other callables too; outputs
/// and what is saved for the backward lie in the graph's pool.
class GraphedCallable {
 public:
  /// `sample` is a call of the layer for the micro-batch; its step does not matter.
  GraphedCallable(LegContext& context, LayerBody& body, GraphKeeper& keeper,
                  const LayerCall& sample, const TensorView& input, const TensorView& grad_output);

  // One eager run on the static inputs, along the order. The measured one also notes how many
  // launches a capture must show.
  void warm_up_forward(bool measured);
  void warm_up_backward(bool measured);
  void warm_up_wgrads(bool measured);

  void capture_forward(const CallableCapture& capture);
  /// Also gives what only this backward needed back to the pool, unless weight gradients are left
  /// that read it.
  void capture_backward(const CallableCapture& capture);
  void capture_wgrads(const CallableCapture& capture);
  const TensorView& input() const { return input_; }
  /// Nothing captured from now on reads the input's gradient.
  void give_back_grad_input() { grad_input_.reset(); }

  /// Run in order just before every replay of the forward: the waits for parameters that are being
  /// gathered.
  void set_hooks(std::vector<std::function<void()>> hooks) { hooks_ = std::move(hooks); }

  /// Copies the input into its slot unless it lies there, replays, and returns the static output.
  TensorView forward(const LayerCall& call, const TensorView& input);
  TensorView backward(const LayerCall& call, const TensorView& grad_output);
  /// True where the backward leaves weight gradients, for which there is a graph.
  bool has_wgrads() const { return wgrad_graph_.exec != nullptr; }
  void add_wgrads(const LayerCall& call);
  /// Sets the flag `grad_added` of the call's layer, as the captured bodies did.
  void note_gradients_added(const LayerCall& call);

  void destroy_graphs();
  /// Gives back what the graphs used and is the callable's own.
  void release_memory();

 private:
  CaptureRequest request(const CallableCapture& capture, bool forward, bool wgrad) const;
  /// After the last graph of the backward.
  void give_back_activations();

  LegContext& context_;
  LayerBody& body_;
  GraphKeeper& keeper_;
  LayerCall sample_;
  TensorView input_;
  TensorView grad_output_;
  std::vector<std::function<void()>> hooks_;
  std::uint64_t forward_launches_ = 0;  ///< of the body when it last ran eagerly
  std::uint64_t backward_launches_ = 0;
  std::uint64_t wgrad_launches_ = 0;
  std::uint64_t forward_replays_ = 0;
  std::uint64_t backward_replays_ = 0;

  Buffer output_;
  Buffer grad_input_;
  SavedActivations saved_;
  DelayedWgrads delayed_;
  SavedActivations eager_saved_;  ///< of a forward that sabotage ran eagerly
  DelayedWgrads eager_delayed_;
  TensorView output_view_;
  TensorView grad_input_view_;
  CapturedGraph forward_graph_;
  CapturedGraph backward_graph_;
  CapturedGraph wgrad_graph_;  ///< empty where the backward leaves nothing
};

}  // namespace cgconform::workloads

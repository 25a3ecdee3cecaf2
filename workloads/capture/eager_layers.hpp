#pragma once

#include <cstdint>
#include <map>
#include <tuple>

#include "workloads/capture/capture_window.hpp"
#include "workloads/capture/layer_body.hpp"
#include "workloads/capture/layer_group.hpp"

namespace cgconform::workloads {

/// Runs layers directly and keeps what a micro-batch still needs: outputs, saved activations and
/// input gradients, until they are released. Of layers that are recomputed as a group it keeps the
/// group's input and random state only, and runs their forwards again before their backwards.
class EagerLayers {
 public:
  explicit EagerLayers(LayerBody& body) : body_(body) {}

  void set_mode(const BodyMode& mode) { mode_ = mode; }
  const BodyMode& mode() const { return mode_; }

  TensorView forward(const LayerCall& call, const TensorView& input);
  TensorView backward(const LayerCall& call, const TensorView& grad_output);
  /// True where the call's backward has left weight gradients.
  bool has_wgrads(const LayerCall& call) const {
    return !held_.at(key_of(call)).delayed.left().empty();
  }
  void add_wgrads(const LayerCall& call);
  void release(std::int32_t microbatch, const LayerRange& layers);
  void clear();

  /// True where outputs and input gradients stay until their release: of layers that are computed
  /// again, outputs are given back when the next layer has read them.
  bool keeps_outputs() const;

  /// Address of the kept output or input gradient of a call; null where there is none.
  const void* output_address(const LayerCall& call) const;
  const void* grad_input_address(const LayerCall& call) const;
  SavedActivations& saved(const LayerCall& call) { return held_.at(key_of(call)).saved; }

 private:
  struct Held {
    LayerCall call;
    TensorView input;
    Buffer output;
    SavedActivations saved;
    DelayedWgrads delayed;
    Buffer grad_input;
    Buffer rng_state;  ///< before the group; of its first layer
  };
  using Key = std::tuple<std::int32_t, std::int32_t, std::int32_t>;  ///< micro-batch, layer, piece

  static Key key_of(const LayerCall& call) { return {call.microbatch, call.layer, call.piece}; }

  void forward_in_group(Held& held, const LayerGroup& group);
  void recompute(const LayerGroup& group, std::int32_t microbatch);
  /// F09b: gives the layer what an earlier micro-batch of the same graph recomputed.
  bool take_recomputed(const LayerGroup& group, std::int32_t microbatch);

  LayerBody& body_;
  BodyMode mode_;
  std::map<Key, Held> held_;
  std::map<std::int32_t, SavedActivations> recomputed_before_;  ///< F09b, by layer
};

/// The record of one execution of a layer, before its counters are known.
ExecutionRecord layer_execution(const LayerCall& call, bool forward);
/// The same of the weight gradients that the call's backward has left.
ExecutionRecord wgrad_execution(const LayerCall& call);

}  // namespace cgconform::workloads

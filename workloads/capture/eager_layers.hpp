#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "workloads/capture/capture_window.hpp"
#include "workloads/capture/layer_body.hpp"

namespace cgconform::workloads {

/// Runs layers directly and keeps what a micro-batch still needs: outputs, saved activations and
/// input gradients, until they are released.
class EagerLayers {
 public:
  explicit EagerLayers(LayerBody& body) : body_(body) {}

  void set_mode(const BodyMode& mode) { mode_ = mode; }
  const BodyMode& mode() const { return mode_; }

  TensorView forward(const LayerCall& call, const TensorView& input);
  TensorView backward(const LayerCall& call, const TensorView& grad_output);
  void release(std::int32_t microbatch, const LayerRange& layers);
  void clear() { held_.clear(); }

  /// Address of a kept output or input gradient; null where there is none.
  const void* output_address(std::int32_t layer, std::int32_t microbatch) const;
  const void* grad_input_address(std::int32_t layer, std::int32_t microbatch) const;
  SavedActivations& saved(std::int32_t layer, std::int32_t microbatch);

 private:
  struct Held {
    Buffer output;
    SavedActivations saved;
    Buffer grad_input;
  };
  using Key = std::pair<std::int32_t, std::int32_t>;  ///< micro-batch, layer

  LayerBody& body_;
  BodyMode mode_;
  std::map<Key, Held> held_;
};

/// The record of one execution of a layer, before its counters are known.
ExecutionRecord layer_execution(const LayerCall& call, bool forward);

}  // namespace cgconform::workloads

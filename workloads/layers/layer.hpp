#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "matrix/training_config.hpp"
#include "workloads/allocator/caching_allocator.hpp"
#include "workloads/device/stream.hpp"
#include "workloads/faults/fault_switches.hpp"
#include "workloads/rng/rng_tracker.hpp"

namespace cgconform::workloads {

/// A trained tensor and the gradient accumulated for it over the micro-batches of a step, which is
/// of the weight's arithmetic type.
struct Parameter {
  std::string name;  ///< within its layer, "mlp.fc1.weight"
  TensorView weight;
  TensorView main_grad;
  /// Of the experts that this rank holds; the others of an expert-parallel group hold other ones.
  bool of_experts = false;
  /// Each tensor-parallel rank holds another part of it; otherwise all of them hold the same.
  bool tensor_share = false;
  /// All tensor-parallel ranks hold it, and each has a summand of its gradient.
  bool partial_gradient = false;
};

/// Parameters that lie side by side in memory, seen as one vector of weights and one of gradients
/// with the same positions.
struct ParameterChunk {
  TensorView weights;
  TensorView main_grads;
};

/// Receives named intermediate tensors in stream order. In an instrumented leg it copies them into
/// slots of its own (a captured copy inside graphs); otherwise it is null.
class TensorTap {
 public:
  virtual ~TensorTap() = default;
  virtual void tap(std::string_view tensor, const TensorView& value) = 0;
};

class BiasGradients;
class DelayedWgrads;
class WgradBranch;

/// Begins the names of tensors that say where tokens were routed.
constexpr std::string_view routing_prefix = "routing:";

/// Where and how one call of a layer runs.
struct LayerContext {
  Stream& stream;
  CachingAllocator& allocator;
  PoolId pool = default_pool;  ///< of temporaries, outputs and saved activations
  RngState rng;
  const FaultSwitches& faults;
  TensorTap* tap = nullptr;
  bool training = true;  ///< off in validation: no dropout, nothing saved
  std::int32_t step = 0;
  std::int32_t microbatch = 0;
  std::string label;  ///< prefix for op labels, "step 0 mb 1 layer 0"
  /// Modules whose activations are not kept but computed again in the backward; see checkpoint.hpp.
  matrix::RecomputeModules recompute = {};
  bool recomputing = false;  ///< a forward that runs again, in the backward
  /// What the loss's gradient is multiplied by, a scalar in device memory, for losses that a layer
  /// adds; invalid where the loss is not scaled.
  TensorView loss_scale = {};
  /// int32 [sequences, borders]: where the packed sequences of each row of a batch begin, padded
  /// with the length, in device memory, so that a graph follows them; invalid where nothing is
  /// packed.
  TensorView cu_seqlens = {};
  /// Takes the gradients of linear layers' parameters that a backward does not add itself; null
  /// where it adds all of them.
  DelayedWgrads* delayed = nullptr;
  /// Takes the gradients of biases that the end of the backward adds together; null where each is
  /// added at once.
  BiasGradients* bias_gradients = nullptr;
  /// Where gradients of weights are added beside the rest of the backward; null where they are part
  /// of it.
  WgradBranch* wgrad_branch = nullptr;
};

/// Activations kept from a layer's forward to its backward, by name.
class SavedActivations {
 public:
  void keep(std::string name, Buffer buffer) {
    buffers_.emplace_back(std::move(name), std::move(buffer));
  }
  /// Notes memory of the caller that stays as it is until the backward.
  void borrow(std::string name, const TensorView& tensor) {
    borrowed_.emplace_back(std::move(name), tensor);
  }
  bool contains(std::string_view name) const { return find(name).valid(); }
  /// Kept or borrowed. Throws InternalError where it is neither.
  TensorView at(std::string_view name) const;
  std::span<const std::pair<std::string, Buffer>> all() const { return buffers_; }
  std::span<const std::pair<std::string, TensorView>> borrowed() const { return borrowed_; }
  /// Everything that is kept or borrowed, by name.
  std::vector<std::pair<std::string, TensorView>> views() const;
  void clear() {
    buffers_.clear();
    borrowed_.clear();
  }

 private:
  TensorView find(std::string_view name) const;

  std::vector<std::pair<std::string, Buffer>> buffers_;
  std::vector<std::pair<std::string, TensorView>> borrowed_;
};

class Layer;

/// A part of a layer that can be run, and captured, apart.
struct LayerModule {
  std::string_view scope;  ///< as graph scopes name it: "attn", "mlp"
  Layer* layer = nullptr;
};

/// A layer with hand-written forward and backward. Stateless but for its parameters.
class Layer {
 public:
  virtual ~Layer() = default;
  virtual std::string_view name() const = 0;
  /// `input` is [tokens, hidden]; returns the output, allocated from the context's pool.
  virtual Buffer forward(LayerContext& context, const TensorView& input,
                         SavedActivations& saved) = 0;
  /// Accumulates into every `main_grad` and returns the gradient of the input. Where the context
  /// delays gradients of weights, those of linear layers are left to it.
  virtual Buffer backward(LayerContext& context, const TensorView& grad_output,
                          SavedActivations& saved) = 0;
  virtual std::span<const Parameter> parameters() const = 0;
  /// Bytes of the output, and of the gradient that the backward takes, where they are bundles of
  /// tensors for the next module; 0 where they are hidden states.
  virtual std::int64_t output_bytes() const { return 0; }
  virtual std::int64_t grad_output_bytes() const { return 0; }
  /// True where the backward reads the input of the forward, which has to stay until then.
  virtual bool reads_input_again() const { return false; }
  /// True where the backward has gradients of weights that can be delayed.
  virtual bool can_delay_wgrads() const { return false; }
  /// The layer's modules in order of execution; run in turn they do what the layer does. Empty
  /// where the layer is not made of modules.
  virtual std::span<const LayerModule> modules() const { return {}; }
};

}  // namespace cgconform::workloads

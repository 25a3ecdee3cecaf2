#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "workloads/capture/capture_faults.hpp"
#include "workloads/layers/delayed_wgrads.hpp"
#include "workloads/layers/layer.hpp"
#include "workloads/training/leg_context.hpp"

namespace cgconform::workloads {

/// What becomes of the activations of a forward, where whole layers are recomputed.
enum class Activations : std::uint8_t {
  kept,
  dropped,     ///< they will be computed again
  recomputed,  ///< of a forward that runs again in the backward
};

/// One call of a layer, or of one of its modules. `layer` counts over the whole model.
struct LayerCall {
  Layer* module = nullptr;
  std::int32_t layer = 0;
  std::int32_t step = 0;
  std::int32_t microbatch = 0;
  bool validation = false;
  std::int64_t sequences = 1;     ///< of the batch, each padded to one length
  std::int64_t valid_length = 0;  ///< rows of each sequence before its padding
  std::string_view scope;         ///< of the module called; empty for the whole layer
  bool opens = true;              ///< takes the layer's input and gives its gradient
  bool closes = true;             ///< gives the layer's output and takes its gradient
  std::int32_t piece = 0;         ///< of the pieces a layer is called in, in order of execution
  Activations activations = Activations::kept;
  TensorView cu_seqlens{};  ///< of the batch; invalid where nothing is packed
  bool partial = false;     ///< of fewer sequences than graphs are captured for

  /// What passes between two modules of a layer is named after the module that is called.
  TensorLocation at(std::string tensor) const;
  std::string label() const;
};

/// Consecutive layers, counted over the whole model.
struct LayerRange {
  std::int32_t first = 0;
  std::int32_t count = 0;
};

/// How the code of a body runs: its pool, and whether a graph is being captured.
struct BodyMode {
  PoolId pool = default_pool;
  bool capturing = false;
  /// Off while graphs of single layers are warmed up and captured: there the checkpoint of a module
  /// (core_attn, mlp, moe, shared_experts) does nothing and all activations are kept.
  bool checkpoints = true;
  /// Off in the warm-up of `local`: there outputs that are otherwise discarded and computed again
  /// (layernorm, moe_act, mla_up_proj) are kept.
  bool discards_outputs = true;
};

/// The code of a layer's forward and backward, the same in eager runs and in captures. Around the
/// layer itself it offers taps, hashes what lies in slots, and gathers the incoming gradient into a
/// workspace: in graph legs by branches on side streams, as an overlapped gather does, so that
/// bodies fork and join. Captured backwards add gradients of weights on a branch of their own. Of a
/// layer called by modules, the one that closes it gathers.
class LayerBody {
 public:
  explicit LayerBody(LegContext& context);

  Buffer forward(const LayerCall& call, const BodyMode& mode, const TensorView& input,
                 SavedActivations& saved);
  /// Accumulates the weight gradients and sets the flag `grad_added` of the layer. Where the cell
  /// delays gradients of weights and `delayed` is given, those that can wait are left there, and
  /// `saved` has to stay until they are added.
  Buffer backward(const LayerCall& call, const BodyMode& mode, const TensorView& grad_output,
                  SavedActivations& saved, DelayedWgrads* delayed = nullptr);
  /// True where backwards leave weight gradients for later.
  bool delays_wgrads() const { return context_.cell.config.delay_wgrad_compute; }
  /// Adds what a backward has left.
  void add_wgrads(const LayerCall& call, const BodyMode& mode, const DelayedWgrads& delayed);
  /// Observes the dropout masks among activations that were computed again.
  void observe_recomputed_masks(const LayerCall& call, const SavedActivations& saved);

  LegContext& leg() { return context_; }
  /// How often host code of bodies has run.
  std::uint64_t host_executions() const { return host_executions_; }
  void count_host_execution() { ++host_executions_; }
  /// Of these, forwards of whole layers in training, as metrics would count them.
  std::uint64_t training_forwards() const { return training_forwards_; }
  CaptureFaults& faults() { return faults_; }

  /// The fused backward adds weight gradients to `main_grad` itself and says so by this flag; where
  /// it is not set, the gradient hook adds them.
  void set_grad_added(std::int32_t layer, bool added) { grad_added_[layer] = added; }
  bool grad_added(std::int32_t layer) const { return grad_added_.at(layer); }
  /// The one buffer that graphs of layers read the borders of packed sequences from; invalid where
  /// nothing is packed.
  TensorView borders_slot() const { return borders_.valid() ? borders_.view() : TensorView{}; }
  /// The zeros that workspaces start from.
  TensorView zeros() const { return zeros_.view(); }

 private:
  LayerContext layer_context(const LayerCall& call, const BodyMode& mode, RecordingTap* tap);
  matrix::RecomputeModules recomputed_modules(const BodyMode& mode) const;
  /// Hashes what delayed weight gradients read.
  void hash_delayed(SlotMoment moment, const LayerCall& call, const DelayedWgrads& delayed);
  void hash_gradients(const LayerCall& call);
  /// All weight gradients of the call are added.
  void note_wgrads(const LayerCall& call, const BodyMode& mode);
  /// A workspace that holds `grad`; in a graph leg gathered by branches.
  TensorView gather(const LayerCall& call, const BodyMode& mode, const TensorView& grad,
                    Buffer& workspace);

  LegContext& context_;
  FaultSwitches no_faults_;
  FaultSwitches captured_;  ///< the faults, and what the configuration makes of a capture
  Buffer zeros_;
  Buffer borders_;
  CaptureFaults faults_;
  std::map<std::int32_t, bool> grad_added_;
  std::uint64_t host_executions_ = 0;
  std::uint64_t training_forwards_ = 0;
};

}  // namespace cgconform::workloads

#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "workloads/training/leg_context.hpp"

namespace cgconform::workloads {

/// What training counts beside its results: the tokens that counted in the loss, summed up by
/// device work of the iteration, and the forwards of layers, counted by the host outside of graphs.
class TrainingMetrics {
 public:
  explicit TrainingMetrics(LegContext& context);

  /// Adds the rows of a micro-batch whose mask is 1. `counted` is their number as the host knows
  /// it.
  void add_tokens(const TensorView& loss_mask, std::int64_t counted, bool capturing);
  void add_layer_forwards(std::uint64_t count) { layer_forwards_ += count; }
  /// The host adds a loss to its own sum.
  void read_loss(const TensorView& loss);
  void observe(std::int32_t step);
  std::uint64_t layer_forwards() const { return layer_forwards_; }
  double losses_read() const { return losses_read_; }
  /// The host's own counts, from a checkpoint.
  void go_on_from(std::uint64_t layer_forwards, double losses_read) {
    layer_forwards_ = layer_forwards;
    losses_read_ = losses_read;
  }
  const TensorView& token_count() const { return token_count_.view(); }

 private:
  LegContext& context_;
  Buffer token_count_;  ///< of the model's type, [1]
  Buffer one_;
  std::uint64_t layer_forwards_ = 0;
  Buffer forwards_on_device_;
  double losses_read_ = 0.0;
  Buffer losses_on_device_;  ///< the host's sum, to be observed
};

}  // namespace cgconform::workloads

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "workloads/parallel/capture_order.hpp"

namespace cgconform::workloads {

/// One entry of a capture order: all layers of a chunk, for one micro-batch.
struct OrderedPass {
  std::int32_t chunk = 0;
  std::int32_t microbatch = 0;
  bool forward = true;
  bool wgrad = false;  ///< the weight gradients that the backward has left; no forward then
  friend bool operator==(const OrderedPass&, const OrderedPass&) = default;
};

/// What is captured ahead of time on one stage: a callable, which is a forward and a backward
/// graph, for every chunk, micro-batch and layer of the chunk.
class CallablePlan {
 public:
  /// `layers_per_chunk` counts the layers with a callable; chunks may differ and may have none.
  /// An entry -c.5 stands for the weight gradients of the backward -c. Throws InternalError where
  /// an order does not pair its forwards with later backwards and these with their weight gradients
  /// (rule te-wgrad-pairs), or has such entries for chunks of several layers (rule
  /// te-wgrad-one-layer-chunks).
  CallablePlan(std::span<const double> order, std::vector<std::int32_t> layers_per_chunk);
  CallablePlan(const std::vector<std::int32_t>& order, std::vector<std::int32_t> layers_per_chunk)
      : CallablePlan(std::vector<double>(order.begin(), order.end()), std::move(layers_per_chunk)) {
  }

  std::span<const OrderedPass> passes() const { return passes_; }
  std::int32_t chunks() const { return static_cast<std::int32_t>(layers_per_chunk_.size()); }
  std::int32_t layers(std::int32_t chunk) const {
    return layers_per_chunk_.at(static_cast<std::size_t>(chunk));
  }
  /// Micro-batches captured; micro-batch m of a step uses the callables of m modulo this number.
  std::int32_t microbatches() const { return microbatches_; }
  std::size_t callables() const { return input_sets_.size(); }

  /// Place of a callable: all of a chunk's after those of the chunks before it, by micro-batch and
  /// then by layer.
  std::size_t index(std::int32_t chunk, std::int32_t microbatch, std::int32_t layer) const;

  /// Static inputs by callable. A set is handed on, first in first out, once the backward that
  /// needs it has passed in the order.
  std::span<const std::int32_t> input_sets() const { return input_sets_; }
  std::int32_t input_set_count() const { return input_set_count_; }

 private:
  /// Entries of a chunk in an order so far.
  struct Entries {
    std::int32_t forwards = 0;
    std::int32_t backwards = 0;
    std::int32_t wgrads = 0;
  };

  void read(std::span<const double> order);
  void read(double entry);
  /// True where weight gradients of the chunk have entries of their own.
  bool splits_backward(std::int32_t chunk) const {
    return entries_.at(static_cast<std::size_t>(chunk)).wgrads > 0;
  }
  void assign_inputs();

  std::vector<std::int32_t> layers_per_chunk_;
  std::vector<Entries> entries_;  ///< by chunk
  std::int32_t microbatches_ = 0;
  std::vector<OrderedPass> passes_;
  std::vector<std::int32_t> input_sets_;
  std::int32_t input_set_count_ = 0;
};

/// Runs through the whole order before it is captured: at least one, and as many as it takes for
/// ten warm-up runs of every callable, those of the eager steps included (rule te-inner-warmup).
std::int32_t inner_warmups(std::int32_t warmup_steps, std::int32_t microbatches,
                           std::int32_t captured_microbatches);

}  // namespace cgconform::workloads

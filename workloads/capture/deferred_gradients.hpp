#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "workloads/capture/layer_body.hpp"

namespace cgconform::workloads {

/// Fault F04b: a backward graph leaves each micro-batch's weight gradient in its static slot, which
/// is handed out and only added up after the next backward of the layer has run. Does nothing where
/// the switch is off.
class DeferredGradients {
 public:
  explicit DeferredGradients(LegContext& context)
      : context_(context), on_(context.fault(Fault::f04b_weight_grad_slot_handed_out)) {}

  /// After a replayed backward.
  void hand_out(const LayerCall& call);
  /// After the last backward of a step: what is still pending, then the sums, go to `main_grad`.
  void finish();
  void clear() { sums_.clear(); }

 private:
  void use(const LayerCall& call);

  LegContext& context_;
  bool on_;
  std::map<std::int32_t, LayerCall> pending_;
  std::map<std::pair<std::int32_t, std::string>, Buffer> sums_;
};

}  // namespace cgconform::workloads

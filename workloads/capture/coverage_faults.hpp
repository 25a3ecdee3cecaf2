#pragma once

#include <cstdint>

#include "workloads/capture/layer_body.hpp"
#include "workloads/training/leg_context.hpp"

namespace cgconform::workloads {

/// The places at which what is asked for is silently not graphed (F34). With every switch off all
/// of it is.
class CoverageFaults {
 public:
  explicit CoverageFaults(const LegContext& context) : context_(context) {}

  /// True where the call runs eagerly although its layer is selected.
  bool leaves_out(const LayerCall& call) const {
    const matrix::TrainingConfig& config = context_.cell.config;
    return (context_.fault(Fault::f34a_layer_left_out) && call.layer == config.num_layers - 1) ||
           (context_.fault(Fault::f34b_micro_batch_left_out) &&
            call.microbatch == config.num_microbatches - 1) ||
           fast_path_lost_;
  }
  /// By how many schedule calls the capture comes late.
  std::int32_t capture_delay() const {
    return context_.fault(Fault::f34c_capture_step_skipped) ? 1 : 0;
  }
  /// A schedule call has run from graphs.
  void after_replayed_call() {
    fast_path_lost_ = context_.fault(Fault::f34e_path_lost_after_first_replay);
  }
  bool fast_path_lost() const { return fast_path_lost_; }

 private:
  const LegContext& context_;
  bool fast_path_lost_ = false;
};

}  // namespace cgconform::workloads

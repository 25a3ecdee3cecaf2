#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "workloads/training/leg_context.hpp"

namespace cgconform::workloads {

/// Faults of delayed weight gradients that graphs add: never (F14e), twice (F14f), or only after
/// the next backward (F06d).
class WgradFaults {
 public:
  explicit WgradFaults(const LegContext& context)
      : times_(context.fault(Fault::f14e_wgrads_left_out) ? 0
               : context.fault(Fault::f14f_wgrads_twice)  ? 2
                                                          : 1),
        late_(context.fault(Fault::f06d_wgrads_after_next_backward)) {}

  /// How often graphs add what one backward has left.
  std::int32_t times() const { return times_; }
  /// Calls `replay`, or what came before it where weight gradients are late.
  void run(std::function<void()> replay) {
    if (!late_) {
      for (std::int32_t i = 0; i < times_; ++i) replay();
      return;
    }
    finish();
    waiting_ = std::move(replay);
  }
  /// What is still waiting at the end of a step.
  void finish() {
    if (waiting_) std::exchange(waiting_, nullptr)();
  }

 private:
  std::int32_t times_;
  bool late_;
  std::function<void()> waiting_;
};

}  // namespace cgconform::workloads

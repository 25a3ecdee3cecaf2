#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "workloads/allocator/caching_allocator.hpp"
#include "workloads/training/leg_context.hpp"
#include "workloads/training/stage_model.hpp"

namespace cgconform::workloads {

/// What runs that only belong to a capture would change of training: the random state and that of
/// the model. Kept from the object's making on.
class StateOverExtraRuns {
 public:
  explicit StateOverExtraRuns(LegContext& context);
  /// Puts it back.
  void restore();

 private:
  LegContext& context_;
  Buffer random_;
  std::vector<Buffer> model_;
};

/// Runs what only belongs to a capture; nothing of it is recorded. Where it is measured, returns
/// the launches it made, those of instruments included, as a capture would hold them; else 0.
std::uint64_t extra_run(LegContext& context, bool measured, const std::function<void()>& run);

void zero_gradients(LegContext& context, StageModel& model);

}  // namespace cgconform::workloads

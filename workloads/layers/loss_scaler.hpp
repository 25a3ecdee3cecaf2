#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "workloads/allocator/caching_allocator.hpp"
#include "workloads/device/communicator.hpp"

namespace cgconform::workloads {

/// The loss scale of fp16 training, all of it in device memory: a step whose gradients overflow is
/// left out and lowers the scale, and steps in a row that do not overflow raise it.
class LossScaler {
 public:
  /// A `fixed_scale` never moves. `stages` joins the ranks that leave out a step together; null for
  /// one rank.
  LossScaler(CachingAllocator& allocator, Stream& stream, std::optional<float> fixed_scale,
             Communicator* stages);

  /// Divides the gradients by the scale and finds out whether any rank's overflowed.
  void unscale(Stream& stream, std::span<const TensorView> main_grads);
  /// Moves the scale by what `unscale` found.
  void update(Stream& stream);

  const TensorView& loss_scale() const { return loss_scale_.view(); }
  const TensorView& overflowed() const { return overflowed_.view(); }
  /// State tensors by name.
  std::vector<std::pair<std::string, TensorView>> state() const;

 private:
  bool moves_;
  Communicator* stages_;
  Buffer loss_scale_;
  Buffer good_steps_;
  Buffer overflowed_;
};

}  // namespace cgconform::workloads

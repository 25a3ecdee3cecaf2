#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "workloads/device/device.hpp"
#include "workloads/layers/layer.hpp"

namespace cgconform::workloads {

/// A branch of a captured backward: gradients of weights are added beside what follows them, as in
/// frameworks that overlap the two. The main stream joins it before the backward ends.
class WgradBranch {
 public:
  /// `side` must be a stream on which nothing else runs meanwhile.
  WgradBranch(Device& device, Stream& main, Stream& side)
      : device_(device), main_(main), side_(side) {}

  /// Calls `add` with the branch's stream, whose work waits for what the main stream holds now.
  template <typename Add>
  void run(Add&& add) {
    follow(side_, main_);
    add(side_);
    runs_ = true;
  }
  /// Keeps memory that the branch may read and nobody else keeps.
  void keep(Buffer buffer) { kept_.push_back(std::move(buffer)); }
  /// The main stream waits for the branch, whose memory may be used again from there on.
  void join() {
    if (std::exchange(runs_, false)) follow(main_, side_);
    kept_.clear();
  }

 private:
  void follow(Stream& later, Stream& earlier) {
    const std::unique_ptr<Event> now = device_.create_event();
    earlier.record(*now);
    later.wait(*now);
  }

  Device& device_;
  Stream& main_;
  Stream& side_;
  std::vector<Buffer> kept_;
  bool runs_ = false;
};

}  // namespace cgconform::workloads

#pragma once

#include <utility>
#include <vector>

#include "workloads/device/stream.hpp"
#include "workloads/layers/layer.hpp"

namespace cgconform::workloads {

/// A branch of a captured backward: gradients of weights are added beside what follows them, as in
/// frameworks that overlap the two. The main stream joins it before the backward ends.
class WgradBranch {
 public:
  /// `side` must be a stream on which nothing else runs meanwhile; `fork` is recorded again and
  /// again.
  WgradBranch(Stream& main, Stream& side, Event& fork) : main_(main), side_(side), fork_(fork) {}

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
    earlier.record(fork_);
    later.wait(fork_);
  }

  Stream& main_;
  Stream& side_;
  Event& fork_;
  std::vector<Buffer> kept_;
  bool runs_ = false;
};

}  // namespace cgconform::workloads

#pragma once

#include <cstdint>
#include <string>

#include "workloads/device/communicator.hpp"

namespace cgconform::workloads {

/// The ranks that hold the parts of a layer's weights, as one of them sees them.
class TensorParallel {
 public:
  TensorParallel() = default;
  /// `group` is null where one rank holds all.
  explicit TensorParallel(Communicator* group) : group_(group) {}

  bool splits() const { return group_ != nullptr; }
  std::int32_t rank() const { return splits() ? group_->rank() : 0; }
  std::int32_t size() const { return splits() ? group_->size() : 1; }
  /// Sums up what the ranks have, in place.
  void all_reduce(const TensorView& tensor, Stream& stream, std::string label) const {
    if (splits()) group_->all_reduce(tensor, tensor, ReduceOp::sum, stream, std::move(label));
  }

 private:
  Communicator* group_ = nullptr;
};

}  // namespace cgconform::workloads

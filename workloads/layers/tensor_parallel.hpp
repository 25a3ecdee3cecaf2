#pragma once

#include <cstdint>
#include <string>

#include "workloads/device/communicator.hpp"

namespace cgconform::workloads {

/// The ranks that hold the parts of a layer's weights, as one of them sees them.
class TensorParallel {
 public:
  TensorParallel() = default;
  /// `group` is null where one rank holds all. With `shares_rows` each rank has an equal share of
  /// the hidden states between the layers' products, as with `sequence_parallel`.
  explicit TensorParallel(Communicator* group, bool shares_rows = false)
      : group_(group), shares_rows_(shares_rows && group != nullptr) {}

  bool splits() const { return group_ != nullptr; }
  bool shares_rows() const { return shares_rows_; }
  std::int32_t rank() const { return splits() ? group_->rank() : 0; }
  std::int32_t size() const { return splits() ? group_->size() : 1; }
  /// Sums up what the ranks have, in place.
  void all_reduce(const TensorView& tensor, Stream& stream, std::string label) const {
    if (splits()) group_->all_reduce(tensor, tensor, ReduceOp::sum, stream, std::move(label));
  }
  /// Gives all ranks what one of them has.
  void broadcast(const TensorView& tensor, std::int32_t from, Stream& stream,
                 std::string label) const {
    group_->broadcast(tensor, from, stream, std::move(label));
  }
  /// Puts the shares of all ranks together.
  void all_gather(const TensorView& all, const TensorView& own, Stream& stream,
                  std::string label) const {
    group_->all_gather(all, own, stream, std::move(label));
  }
  /// Sums up what the ranks have, and leaves each its share.
  void reduce_scatter(const TensorView& own, const TensorView& all, Stream& stream,
                      std::string label) const {
    group_->reduce_scatter(own, all, stream, std::move(label));
  }

 private:
  Communicator* group_ = nullptr;
  bool shares_rows_ = false;
};

}  // namespace cgconform::workloads

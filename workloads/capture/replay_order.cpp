#include "workloads/capture/replay_order.hpp"

#include <fmt/format.h>

#include "matrix/error.hpp"

namespace cgconform::workloads {

void ReplayOrder::launch(std::size_t graph) {
  if (graph != next_) {
    throw Error(
        fmt::format("replay order: '{}' is to be launched where '{}' is planned; replay "
                    "graphs that share a pool in the order of their capture, or give them "
                    "separate pools",
                    names_.at(graph), names_.at(next_)));
  }
  next_ = (next_ + 1) % names_.size();
}

}  // namespace cgconform::workloads

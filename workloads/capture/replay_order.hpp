#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace cgconform::workloads {

/// The order in which graphs that share a pool have to be replayed: the one they were captured in,
/// again and again. A graph of it takes memory that the ones before it no longer need.
class ReplayOrder {
 public:
  explicit ReplayOrder(std::vector<std::string> names) : names_(std::move(names)) {}

  /// Notes that the graph of that place is about to be launched. Throws Error where another is
  /// planned now; the order then stands where it stood.
  void launch(std::size_t graph);
  /// The next round begins: nothing is in flight and nothing is kept from the last one.
  void restart() { next_ = 0; }

 private:
  std::vector<std::string> names_;
  std::size_t next_ = 0;
};

}  // namespace cgconform::workloads

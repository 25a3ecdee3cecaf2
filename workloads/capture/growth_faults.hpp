#pragma once

#include <cstdint>
#include <memory>

#include "workloads/device/graph.hpp"
#include "workloads/training/leg_context.hpp"

namespace cgconform::workloads {

/// The named places at which what a capture made can be kept too long. With every switch off each
/// method does nothing. What is kept goes with the leg's memory.
class GrowthFaults {
 public:
  explicit GrowthFaults(LegContext& context) : context_(context) {}

  /// Inside the capture window, after the body.
  void in_capture(PoolId pool);
  /// A graph was captured.
  void after_capture(const Graph& graph, std::shared_ptr<void> user_object);
  /// A training step has ended.
  void after_step();

  /// A set of graphs is about to be destroyed: because another replaces it, or for good.
  void before_destruction(bool replaced);
  /// All graphs are destroyed.
  void after_cleanup();
  /// An executable is about to be destroyed.
  void before_destruction(std::unique_ptr<GraphExec>& exec);

 private:
  void keep_block(PoolId pool, std::int64_t bytes, const char* label);

  LegContext& context_;
  bool keeps_next_ = false;
};

}  // namespace cgconform::workloads

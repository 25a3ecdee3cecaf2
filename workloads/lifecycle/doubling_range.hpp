#pragma once

#include <array>
#include <cstddef>
#include <memory>

#include "workloads/allocator/caching_allocator.hpp"
#include "workloads/device/device.hpp"
#include "workloads/ops/fp8.hpp"

namespace cgconform::workloads {

class FaultSwitches;

/// A matrix whose range doubles at every step, quantised with delayed scaling by a history of two
/// steps and room for numbers twice as large: eagerly or by the replay of a graph.
class DoublingRange {
 public:
  static constexpr std::size_t steps = 8;
  static constexpr float largest = 448.0F;  ///< of E4M3

  /// Scale, its reciprocal, the history, the magnitude of the step and the count of updates.
  using State = std::array<float, 6>;

  /// `faults` of the captured work may be null.
  DoublingRange(Device& device, const FaultSwitches* faults);
  DoublingRange(const DoublingRange&) = delete;
  DoublingRange& operator=(const DoublingRange&) = delete;
  ~DoublingRange();

  void run_eagerly(std::size_t step);
  /// Captures before the first step.
  void run_from_graph(std::size_t step);

  State state();
  /// The number that the largest element became in the last step, in the quantised range.
  float largest_quantised();
  /// The scale that has to follow step `step`, whose magnitude is the largest so far.
  static float expected_scale(std::size_t step);

 private:
  void put_input(std::size_t step);
  void work(bool captured);
  TensorView part(std::int64_t first, const Shape& shape) const;

  const FaultSwitches* faults_;
  std::unique_ptr<Stream> stream_;
  CachingAllocator allocator_;
  Buffer x_;
  Buffer rows_;
  Buffer columns_;
  Buffer numbers_;
  Buffer largest_;
  std::unique_ptr<GraphExec> exec_;
};

}  // namespace cgconform::workloads

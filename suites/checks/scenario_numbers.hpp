#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "workloads/allocator/caching_allocator.hpp"
#include "workloads/device/device.hpp"

namespace cgconform::suites::checks {

/// Small integers: their sums are exact in any order.
using Numbers = std::vector<std::int32_t>;
constexpr std::int64_t scenario_elements = 16;

/// first, first + 1, ...
Numbers numbers_from(std::int32_t first);
/// Sum over ranks 0 to `ranks - 1` of numbers_from(first + 100 * rank).
Numbers summed_over_ranks(std::int32_t first, int ranks);

/// A stream and tensors of numbers for one scenario.
class NumberScene {
 public:
  explicit NumberScene(workloads::Device& device);

  workloads::Buffer tensor(const char* label);
  /// Writes numbers in the order of the stream, the scene's own by default.
  void put(const workloads::TensorView& tensor, const Numbers& numbers);
  void put(workloads::Stream& stream, const workloads::TensorView& tensor, const Numbers& numbers);
  /// Waits for the stream and reads.
  Numbers get(const workloads::TensorView& tensor);
  Numbers get(workloads::Stream& stream, const workloads::TensorView& tensor);

  workloads::Stream& stream() { return *stream_; }
  workloads::Device& device() { return device_; }

 private:
  workloads::Device& device_;
  std::unique_ptr<workloads::Stream> stream_;
  workloads::CachingAllocator allocator_;
};

}  // namespace cgconform::suites::checks

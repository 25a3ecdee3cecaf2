#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "workloads/allocator/caching_allocator.hpp"
#include "workloads/layers/layer.hpp"

namespace cgconform::workloads {

/// How a parameter starts: normally distributed about `mean`.
struct ParameterInit {
  float mean = 0.0F;
  float deviation = 0.0F;
};

/// Owns the weights and accumulated gradients of a stage. A weight's initial values are a function
/// of the seed and of its number in the whole model, so that every split of the model over stages
/// starts from the same weights.
class ParameterStore {
 public:
  ParameterStore(CachingAllocator& allocator, Stream& stream, DType dtype, std::uint64_t seed)
      : allocator_(allocator), stream_(stream), dtype_(dtype), seed_(seed) {}

  /// `number` is unique in the whole model.
  Parameter add(std::string name, const Shape& shape, const ParameterInit& init,
                std::uint64_t number);

 private:
  CachingAllocator& allocator_;
  Stream& stream_;
  DType dtype_;
  std::uint64_t seed_;
  std::deque<Buffer> buffers_;
};

}  // namespace cgconform::workloads

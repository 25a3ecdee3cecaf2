#pragma once

#include <cstdint>
#include <deque>
#include <span>
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

/// The part of a tensor of the whole model that one of `parts` ranks holds: an equal share along
/// `axis`. Where the tensor is made of sections one after the other along its first axis, each of
/// them is shared out.
struct ParameterShard {
  int axis = 0;
  std::int32_t part = 0;
  std::int32_t parts = 1;
  std::vector<std::int64_t> sections{};  ///< extents along the axis; none means one section
};

/// Owns the weights and accumulated gradients of a stage, many parameters to a chunk of memory, so
/// that zeroing, stepping and observing take few launches. Gradients have the weights' arithmetic
/// type. A weight's initial values are a function of the seed, of its number and of their places in
/// the whole model, so that every split of the model over ranks starts from the same weights.
class ParameterStore {
 public:
  /// `expected` is about how many elements will be added: the capacity of the first chunk.
  ParameterStore(CachingAllocator& allocator, Stream& stream, DType dtype, std::uint64_t seed,
                 std::int64_t expected = 0)
      : allocator_(allocator), stream_(stream), dtype_(dtype), seed_(seed), expected_(expected) {}

  /// A parameter that is `shape` in the whole model, of which the rank holds `shard`. `number` is
  /// unique in the whole model. Throws InternalError where the shape has no such shard.
  Parameter add(std::string name, const Shape& shape, const ParameterInit& init,
                std::uint64_t number, const ParameterShard& shard = {});
  /// The chunks as far as parameters fill them, in the order in which parameters were added. What
  /// lies between parameters is zero.
  std::span<const ParameterChunk> chunks() const { return chunks_; }

 private:
  struct Memory {
    Buffer weights;
    Buffer main_grads;
  };
  void initialise(const TensorView& weight, const Shape& whole, const ParameterInit& init,
                  std::uint64_t number, const ParameterShard& shard, const std::string& label);
  /// Room for `elements` more at the end of the last chunk; makes another where it is full.
  void make_room(std::int64_t elements);

  CachingAllocator& allocator_;
  Stream& stream_;
  DType dtype_;
  std::uint64_t seed_;
  std::int64_t expected_;
  std::deque<Memory> memory_;
  std::vector<ParameterChunk> chunks_;
};

}  // namespace cgconform::workloads

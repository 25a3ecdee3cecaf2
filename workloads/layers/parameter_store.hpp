#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "workloads/allocator/caching_allocator.hpp"
#include "workloads/layers/layer.hpp"
#include "workloads/ops/fill.hpp"

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
  /// Of weights of experts, [experts, out, in]: these are shared out along the first axis, and each
  /// expert's along `axis`, 1 or 2.
  std::int32_t expert_part = 0;
  std::int32_t expert_parts = 1;
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
  /// Leaves the weights added from now on at zero until `initialise` fills them all at once.
  void defer_initialisation() { deferred_ = true; }
  void initialise();
  /// The chunks as far as parameters fill them, in the order in which parameters were added. What
  /// lies between parameters is zero.
  std::span<const ParameterChunk> chunks() const { return chunks_; }

 private:
  struct Memory {
    Buffer weights;
    Buffer main_grads;
    std::vector<NormalPart> uninitialised;
  };
  /// Notes the initial values of a weight that begins at element `first` of the last chunk.
  void note_values(std::int64_t first, const Shape& shape, const Shape& whole,
                   const ParameterInit& init, std::uint64_t number, const ParameterShard& shard);
  /// Room for `elements` more at the end of the last chunk; makes another where it is full.
  void make_room(std::int64_t elements);

  CachingAllocator& allocator_;
  Stream& stream_;
  DType dtype_;
  std::uint64_t seed_;
  std::int64_t expected_;
  bool deferred_ = false;
  std::deque<Memory> memory_;
  std::vector<ParameterChunk> chunks_;
};

}  // namespace cgconform::workloads

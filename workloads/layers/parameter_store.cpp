#include "workloads/layers/parameter_store.hpp"

#include <algorithm>
#include <utility>

#include "workloads/ops/fill.hpp"
#include "workloads/training/tensor_ops.hpp"

namespace cgconform::workloads {

namespace {

/// Keeps initial weights apart from dropout masks, which are drawn under the same seed.
constexpr std::uint64_t parameter_seed_salt = 0x9E3779B97F4A7C15ULL;

/// Parameters start at multiples of so many elements: 256 bytes of the smallest type.
constexpr std::int64_t alignment = 128;
constexpr std::int64_t later_capacity = std::int64_t{1} << 14;
constexpr std::int64_t largest_capacity = std::int64_t{1} << 24;

std::int64_t aligned(std::int64_t elements) {
  return (elements + alignment - 1) / alignment * alignment;
}

}  // namespace

void ParameterStore::make_room(std::int64_t elements) {
  if (!chunks_.empty()) {
    const std::int64_t used = chunks_.back().weights.elements();
    if (used + elements <= memory_.back().weights.view().elements()) return;
  }
  const std::int64_t capacity = chunks_.empty() ? expected_ : later_capacity;
  const Shape shape{std::max(std::min(capacity, largest_capacity), elements)};
  Memory& memory = memory_.emplace_back();
  memory.weights = Buffer(allocator_, stream_, default_pool, dtype_, shape, "weights");
  memory.main_grads =
      Buffer(allocator_, stream_, default_pool, arithmetic_type(dtype_), shape, "main gradients");
  stream_.fill(memory.weights.view(), 0, "zero weights");
  stream_.fill(memory.main_grads.view(), 0, "zero main gradients");
  chunks_.push_back({elements_of(memory.weights.view(), 0, Shape{0}),
                     elements_of(memory.main_grads.view(), 0, Shape{0})});
}

Parameter ParameterStore::add(std::string name, const Shape& shape, const ParameterInit& init,
                              std::uint64_t number) {
  const std::int64_t elements = aligned(shape.elements());
  make_room(elements);
  ParameterChunk& chunk = chunks_.back();
  const std::int64_t first = chunk.weights.elements();
  chunk.weights.shape = Shape{first + elements};
  chunk.main_grads.shape = chunk.weights.shape;
  const TensorView weight = elements_of(chunk.weights, first, shape);
  fill_normal(stream_, weight, {seed_ ^ parameter_seed_salt, number, init.deviation, init.mean},
              "initialise " + name);
  return {std::move(name), weight, elements_of(chunk.main_grads, first, shape)};
}

}  // namespace cgconform::workloads

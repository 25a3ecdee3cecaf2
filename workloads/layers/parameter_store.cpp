#include "workloads/layers/parameter_store.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "matrix/error.hpp"
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

std::vector<std::int64_t> sections_of(const ParameterShard& shard, const Shape& whole) {
  return shard.sections.empty() ? std::vector{whole[shard.axis]} : shard.sections;
}

Shape shape_of(const ParameterShard& shard, const Shape& whole, const std::string& name) {
  for (const std::int64_t section : sections_of(shard, whole)) {
    if (section % shard.parts == 0) continue;
    throw InternalError(
        fmt::format("{}: {} rows or columns have no {} equal parts", name, section, shard.parts));
  }
  if (whole.rank() == 1) return Shape{whole[0] / shard.parts};
  if (whole.rank() == 3) {
    if (shard.axis == 0 || whole[0] % shard.expert_parts != 0) {
      throw InternalError(fmt::format("{}: {} experts have no {} equal parts along axis {}", name,
                                      whole[0], shard.expert_parts, shard.axis));
    }
    const bool columns = shard.axis == 2;
    return Shape{whole[0] / shard.expert_parts, columns ? whole[1] : whole[1] / shard.parts,
                 columns ? whole[2] / shard.parts : whole[2]};
  }
  return shard.axis == 0 ? Shape{whole[0] / shard.parts, whole[1]}
                         : Shape{whole[0], whole[1] / shard.parts};
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

void ParameterStore::initialise() {
  for (std::size_t chunk = 0; chunk < chunks_.size(); ++chunk) {
    std::vector<NormalPart>& parts = memory_[chunk].uninitialised;
    if (parts.empty()) continue;
    const Shape bytes{static_cast<std::int64_t>(parts.size() * sizeof(NormalPart))};
    const Buffer table(allocator_, stream_, default_pool, DType::uint8, bytes, "parameter parts");
    stream_.upload(table.view(), parts.data(), false, "parameter parts");
    fill_normal_parts(stream_, chunks_[chunk].weights, table.view(), "initialise parameters");
    parts.clear();
  }
}

Parameter ParameterStore::add(std::string name, const Shape& whole, const ParameterInit& init,
                              std::uint64_t number, const ParameterShard& shard) {
  const Shape shape = shape_of(shard, whole, name);
  const std::int64_t elements = aligned(shape.elements());
  make_room(elements);
  ParameterChunk& chunk = chunks_.back();
  const std::int64_t first = chunk.weights.elements();
  chunk.weights.shape = Shape{first + elements};
  chunk.main_grads.shape = chunk.weights.shape;
  const TensorView weight = elements_of(chunk.weights, first, shape);
  note_values(first, shape, whole, init, number, shard);
  if (!deferred_) initialise();
  return {.name = std::move(name),
          .weight = weight,
          .main_grad = elements_of(chunk.main_grads, first, shape),
          .tensor_share = shard.parts > 1};
}

void ParameterStore::note_values(std::int64_t first, const Shape& shape, const Shape& whole,
                                 const ParameterInit& init, std::uint64_t number,
                                 const ParameterShard& shard) {
  std::vector<NormalPart>& parts = memory_.back().uninitialised;
  FillNormalParams values{seed_ ^ parameter_seed_salt, number, init.deviation, init.mean};
  if (whole.rank() == 3) {
    // A row is what lies side by side in the whole tensor: of an expert, or of a row of it.
    const std::int64_t inner = shard.axis == 1 ? whole[2] : 1;
    values.row_length = shape[shard.axis] * inner;
    values.row_stride = whole[shard.axis] * inner;
    values.first =
        shard.expert_part * shape[0] * whole[1] * whole[2] + shard.part * values.row_length;
    parts.push_back({first, shape.elements(), values});
    return;
  }
  if (shard.axis == 1) {
    values.row_length = shape[1];
    values.row_stride = whole[1];
    values.first = shard.part * shape[1];
    parts.push_back({first, shape.elements(), values});
    return;
  }
  const std::int64_t row = whole.elements() / whole[0];
  std::int64_t before = 0;  // rows of earlier sections, in the whole tensor
  for (const std::int64_t section : sections_of(shard, whole)) {
    const std::int64_t rows = section / shard.parts;
    values.first = (before + shard.part * rows) * row;
    parts.push_back({first + before / shard.parts * row, rows * row, values});
    before += section;
  }
}

}  // namespace cgconform::workloads

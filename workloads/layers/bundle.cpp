#include "workloads/layers/bundle.hpp"

#include <algorithm>
#include <cstddef>
#include <string>

#include "matrix/error.hpp"
#include "workloads/layers/layer_ops.hpp"

namespace cgconform::workloads {
namespace {

constexpr std::int64_t part_alignment = 256;

std::int64_t aligned_bytes(const BundlePart& part) {
  const std::int64_t bytes = part.shape.elements() * dtype_bytes(part.dtype);
  return (bytes + part_alignment - 1) / part_alignment * part_alignment;
}

}  // namespace

std::int64_t BundleLayout::bytes() const {
  std::int64_t bytes = 0;
  for (const BundlePart& part : parts_) bytes += aligned_bytes(part);
  return bytes;
}

bool BundleLayout::contains(std::string_view name) const {
  return std::any_of(parts_.begin(), parts_.end(),
                     [name](const BundlePart& part) { return part.name == name; });
}

std::int64_t BundleLayout::offset_of(std::string_view name) const {
  std::int64_t offset = 0;
  for (const BundlePart& part : parts_) {
    if (part.name == name) return offset;
    offset += aligned_bytes(part);
  }
  throw InternalError("a bundle of tensors has no " + std::string(name));
}

TensorView BundleLayout::part(const TensorView& bundle, std::string_view name) const {
  const std::int64_t offset = offset_of(name);
  const auto found = std::find_if(parts_.begin(), parts_.end(),
                                  [name](const BundlePart& part) { return part.name == name; });
  return {static_cast<std::byte*>(bundle.data) + offset, found->dtype, found->shape};
}

TensorView BundleLayout::all_of(const TensorView& bundle) const {
  return {bundle.data, DType::uint8, Shape{bytes()}};
}

Buffer make_bundle(LayerContext& context, const BundleLayout& layout, std::string_view name) {
  Buffer bundle = make_buffer(context, DType::uint8, {layout.bytes()}, name);
  context.stream.fill(bundle.view(), 0, op_label(context, name));
  return bundle;
}

}  // namespace cgconform::workloads

#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "workloads/layers/layer.hpp"

namespace cgconform::workloads {

/// One tensor of a bundle.
struct BundlePart {
  std::string_view name;
  DType dtype = DType::fp32;
  Shape shape;
};

/// How tensors lie in the one block of memory in which a module hands them to the next one. Layouts
/// that begin with the same parts have them in the same places.
class BundleLayout {
 public:
  BundleLayout() = default;
  explicit BundleLayout(std::vector<BundlePart> parts) : parts_(std::move(parts)) {}

  std::int64_t bytes() const;
  bool contains(std::string_view name) const;
  /// The part within `bundle`. Throws InternalError where the layout has none of the name.
  TensorView part(const TensorView& bundle, std::string_view name) const;
  /// Where these parts lie in a bundle whose layout begins with them, as bytes.
  TensorView all_of(const TensorView& bundle) const;

 private:
  std::int64_t offset_of(std::string_view name) const;

  std::vector<BundlePart> parts_;
};

/// An empty bundle from the context's pool; what lies between its parts is zero.
Buffer make_bundle(LayerContext& context, const BundleLayout& layout, std::string_view name);

}  // namespace cgconform::workloads

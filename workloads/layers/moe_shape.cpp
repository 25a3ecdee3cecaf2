#include "workloads/layers/moe_shape.hpp"

#include <utility>
#include <vector>

namespace cgconform::workloads {

std::int64_t expert_rows(const TransformerShape& shape, const MoeShape& moe) {
  if (moe.capacity > 0) return std::int64_t{moe.experts} * moe.capacity;
  return shape.tokens() * moe.top_k;
}

MoeLayouts moe_layouts(const TransformerShape& shape, const MoeShape& moe, DType dtype) {
  const Shape hidden{shape.tokens(), shape.hidden};
  const Shape places{shape.tokens(), moe.top_k};
  const Shape rows{expert_rows(shape, moe), shape.hidden};
  std::vector<BundlePart> common{{"residual", dtype, hidden}};
  if (moe.shared_hidden > 0) common.push_back({"shared", dtype, hidden});
  common.push_back({"probabilities", arithmetic_type(dtype), places});
  const auto with = [&common](std::vector<BundlePart> more) {
    std::vector<BundlePart> all = common;
    all.insert(all.end(), more.begin(), more.end());
    return BundleLayout(std::move(all));
  };
  const BundlePart load{"load", DType::int32, {moe.experts}};
  const BundlePart slots{"slots", DType::int32, places};
  const BundlePart sources{"sources", DType::int32, {rows[0]}};
  MoeLayouts layouts;
  layouts.common = BundleLayout(common);
  layouts.routed =
      with({{"experts", DType::int32, places}, load, BundlePart{"normed", dtype, hidden}});
  layouts.placed = with({slots, sources, load, BundlePart{"rows", dtype, rows}});
  layouts.worked = with({slots, sources, BundlePart{"rows", dtype, rows}});
  layouts.routed_grad = with({BundlePart{"normed", dtype, hidden}});
  layouts.placed_grad = with({BundlePart{"rows", dtype, rows}});
  return layouts;
}

}  // namespace cgconform::workloads

#include "workloads/ops/head_groups.hpp"

#include <utility>

#include "matrix/error.hpp"
#include "workloads/ops/cuda/kernels.hpp"
#include "workloads/ops/reference/kernels.hpp"

namespace cgconform::workloads {

namespace {

constexpr std::array take_operands{OperandDeclaration{"heads", Access::write},
                                   OperandDeclaration{"rows", Access::read}};
constexpr std::array merge_operands{
    OperandDeclaration{"rows", Access::write}, OperandDeclaration{"query", Access::read},
    OperandDeclaration{"key", Access::read}, OperandDeclaration{"value", Access::read}};

HeadGroupsParams groups_of(const TensorView& heads, const TensorView& rows, std::int32_t sequences,
                           std::int32_t repeat) {
  HeadGroupsParams params;
  params.sequences = sequences;
  params.length = static_cast<std::int32_t>(heads.shape[1]);
  params.heads = static_cast<std::int32_t>(heads.shape[0]) / sequences;
  params.size = static_cast<std::int32_t>(heads.shape[2]);
  params.repeat = repeat;
  params.width = static_cast<std::int32_t>(rows.shape[1]);
  if (repeat < 1 || params.heads % repeat != 0 ||
      rows.shape[0] != std::int64_t{sequences} * params.length) {
    throw InternalError("take_heads, merge_head_groups: the extents of rows and heads do not fit");
  }
  return params;
}

}  // namespace

const OpDeclaration take_heads_op{"take_heads", take_operands, reference::take_heads,
                                  cuda::take_heads};
const OpDeclaration merge_head_groups_op{"merge_head_groups", merge_operands,
                                         reference::merge_head_groups, cuda::merge_head_groups};

void take_heads(Stream& stream, const TensorView& heads, const TensorView& rows,
                std::int32_t sequences, std::int32_t first_column, std::int32_t repeat,
                std::string label) {
  HeadGroupsParams params = groups_of(heads, rows, sequences, repeat);
  params.first_column = first_column;
  if (first_column + params.heads / repeat * params.size > params.width) {
    throw InternalError("take_heads: the columns end before the heads do");
  }
  stream.launch(
      make_call(take_heads_op, std::array{heads, rows}, OpParams::of(params), std::move(label)));
}

void merge_head_groups(Stream& stream, const TensorView& rows,
                       const std::array<TensorView, 3>& query_key_value, std::int32_t sequences,
                       std::int32_t repeat, std::string label) {
  const auto& [query, key, value] = query_key_value;
  const HeadGroupsParams params = groups_of(query, rows, sequences, repeat);
  const bool fits = key.shape == query.shape && value.shape == query.shape &&
                    params.width == (params.heads + 2 * (params.heads / repeat)) * params.size;
  if (!fits) throw InternalError("merge_head_groups: rows do not hold just these heads");
  stream.launch(make_call(merge_head_groups_op, std::array{rows, query, key, value},
                          OpParams::of(params), std::move(label)));
}

}  // namespace cgconform::workloads

#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "workloads/device/stream.hpp"

namespace cgconform::workloads {

/// By-value scalars of moving heads between rows and a tensor of heads, where several heads of the
/// tensor may stand for one of the rows.
struct HeadGroupsParams {
  std::int32_t sequences = 1;
  std::int32_t length = 1;
  std::int32_t heads = 1;  ///< of the tensor, in each sequence
  std::int32_t size = 1;   ///< of a head
  std::int32_t repeat = 1;
  std::int32_t first_column = 0;  ///< of take_heads only
  std::int32_t width = 1;         ///< of a row
};

extern const OpDeclaration take_heads_op;
extern const OpDeclaration merge_head_groups_op;

/// [sequences * length, width] to [sequences * heads, length, size]: the columns of heads / repeat
/// heads from `first_column` on, each given `repeat` times in a row.
void take_heads(Stream& stream, const TensorView& heads, const TensorView& rows,
                std::int32_t sequences, std::int32_t first_column, std::int32_t repeat,
                std::string label);

/// Writes rows [sequences * length, width] from queries and, after them, keys and values, of which
/// `repeat` neighbouring heads are summed up: what is the gradient of taking all three.
void merge_head_groups(Stream& stream, const TensorView& rows,
                       const std::array<TensorView, 3>& query_key_value, std::int32_t sequences,
                       std::int32_t repeat, std::string label);

}  // namespace cgconform::workloads

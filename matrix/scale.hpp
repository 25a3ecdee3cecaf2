#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "matrix/cell.hpp"

namespace cgconform::matrix {

/// Sizes of a model and its batches, by a name: the values of the axis `scale`.
struct Scale {
  std::string_view name;
  std::int32_t hidden_size = 0;
  std::int32_t num_attention_heads = 0;
  std::int32_t seq_length = 0;
  std::int32_t micro_batch_size = 0;
  std::int32_t ffn_hidden_size = 0;
  std::int32_t vocab_size = 0;
};

/// The scale at which a matrix keeps the sizes of its own.
constexpr std::string_view own_scale = "tiny";

/// All but the own one, the smallest first. The largest is bounded by what a cell keeps to compare:
/// weights, gradients and optimizer state of every step of every leg. In bf16, with the sixteen
/// layers of the largest built-in matrices on one rank, that fits an H200.
std::span<const Scale> scale_table();

/// The row with that name; null for the own scale and where there is none.
const Scale* find_scale(std::string_view name);

/// The names of all scales, the own one first.
std::span<const std::string_view> scale_names();

/// Sets the sizes of `scale` in the cell, but none of the fields named in `given`. A width that is
/// given keeps its own number of heads.
void apply_scale(Cell& cell, const Scale& scale, const std::set<std::string, std::less<>>& given);

/// The name itself. Throws InputError with the nearest one where there is no such scale.
std::string checked_scale(std::string_view name);

}  // namespace cgconform::matrix

#include "matrix/scale.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "matrix/error.hpp"
#include "matrix/nearest_name.hpp"

namespace cgconform::matrix {
namespace {

constexpr std::array<Scale, 3> table{{
    {.name = "small",
     .hidden_size = 128,
     .num_attention_heads = 4,
     .seq_length = 64,
     .micro_batch_size = 2,
     .ffn_hidden_size = 512,
     .vocab_size = 256},
    {.name = "medium",
     .hidden_size = 512,
     .num_attention_heads = 8,
     .seq_length = 256,
     .micro_batch_size = 2,
     .ffn_hidden_size = 2048,
     .vocab_size = 1024},
    {.name = "large",
     .hidden_size = 1024,
     .num_attention_heads = 16,
     .seq_length = 1024,
     .micro_batch_size = 2,
     .ffn_hidden_size = 4096,
     .vocab_size = 2048},
}};

constexpr std::array<std::string_view, table.size() + 1> names{own_scale, "small", "medium",
                                                               "large"};

}  // namespace

std::span<const Scale> scale_table() {
  return table;
}

const Scale* find_scale(std::string_view name) {
  const auto* found =
      std::find_if(table.begin(), table.end(), [&](const Scale& row) { return row.name == name; });
  return found == table.end() ? nullptr : found;
}

std::span<const std::string_view> scale_names() {
  return names;
}

void apply_scale(Cell& cell, const Scale& scale, const std::set<std::string, std::less<>>& given) {
  const auto set = [&](std::string_view field, std::int32_t& target, std::int32_t value) {
    if (!given.contains(field)) target = value;
  };
  set("hidden_size", cell.config.hidden_size, scale.hidden_size);
  if (!given.contains("hidden_size")) {
    set("num_attention_heads", cell.config.num_attention_heads, scale.num_attention_heads);
  }
  set("seq_length", cell.config.seq_length, scale.seq_length);
  set("micro_batch_size", cell.config.micro_batch_size, scale.micro_batch_size);
  set("ffn_hidden_size", cell.shape.ffn_hidden_size, scale.ffn_hidden_size);
  set("vocab_size", cell.shape.vocab_size, scale.vocab_size);
}

std::string checked_scale(std::string_view name) {
  if (std::find(names.begin(), names.end(), name) != names.end()) return std::string(name);
  throw InputError(fmt::format("--scale {}: there is no such scale{}; it is one of {}", name,
                               nearest_hint(name, names), fmt::join(names, ", ")));
}

}  // namespace cgconform::matrix

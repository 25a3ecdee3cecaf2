#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "matrix/axis.hpp"

namespace cgconform::matrix {

/// The whole of `token` as an integer, or nothing.
inline std::optional<std::int64_t> parse_integer(std::string_view token) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), value);
  if (error != std::errc() || end != token.data() + token.size()) return std::nullopt;
  return value;
}

/// An axis over a count of `Cell::config` or `Cell::shape` (`Part`), not below `Minimum`.
template <auto Part, auto Field, std::int32_t Minimum>
std::optional<AxisValue> parse_count(std::string_view token) {
  const auto value = parse_integer(token);
  if (!value || *value < Minimum || *value > INT32_MAX) return std::nullopt;
  const auto count = static_cast<std::int32_t>(*value);
  return AxisValue{std::to_string(count), static_cast<double>(count),
                   [count](Cell& cell) { cell.*Part.*Field = count; }};
}

std::optional<AxisValue> parse_impl(std::string_view token);
std::optional<AxisValue> parse_scope(std::string_view token);
std::optional<AxisValue> parse_model(std::string_view token);
std::optional<AxisValue> parse_attention(std::string_view token);
std::optional<AxisValue> parse_pattern(std::string_view token);
std::optional<AxisValue> parse_packing(std::string_view token);
std::optional<AxisValue> parse_recompute(std::string_view token);
std::optional<AxisValue> parse_virtual_stages(std::string_view token);
std::optional<AxisValue> parse_dtype(std::string_view token);
std::optional<AxisValue> parse_optimizer(std::string_view token);
std::optional<AxisValue> parse_graphed_layers(std::string_view token);
std::optional<AxisValue> parse_scale(std::string_view token);
std::optional<AxisValue> parse_capture_form(std::string_view token);
std::optional<AxisValue> parse_clip_grad(std::string_view token);
std::optional<AxisValue> parse_last_batch(std::string_view token);
std::optional<AxisValue> parse_dropout(std::string_view token);
std::optional<AxisValue> parse_allocator(std::string_view token);
std::optional<AxisValue> parse_graph_register(std::string_view token);
std::optional<AxisValue> parse_pool(std::string_view token);

}  // namespace cgconform::matrix

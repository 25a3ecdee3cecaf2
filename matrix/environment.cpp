#include "matrix/environment.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <vector>

#include <fmt/format.h>

#include "matrix/error.hpp"
#include "matrix/nearest_name.hpp"
#include "matrix/quoted_word.hpp"

namespace cgconform::matrix {

namespace {

constexpr std::array<std::string_view, 6> variable_names{
    "PYTORCH_CUDA_ALLOC_CONF",       "PYTORCH_ALLOC_CONF",
    "NCCL_GRAPH_REGISTER",           "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_GRAPHS_USE_NODE_PRIORITY", "NVTE_CPU_OFFLOAD_V1",
};
constexpr std::array<std::string_view, 6> other_keys{
    "compute_capability", "transformer_engine", "torch", "nccl", "variables", "versions"};

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t'\"");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t'\"") - first + 1);
}

bool is_true_word(std::string_view word) {
  return word.size() == 4 && std::equal(word.begin(), word.end(), "true", [](char a, char b) {
           return (a >= 'A' && a <= 'Z' ? static_cast<char>(a - 'A' + 'a') : a) == b;
         });
}

/// What the allocator makes of its settings: `key:value` items separated by commas.
bool expandable_in(std::string_view settings) {
  bool expandable = false;
  while (!settings.empty()) {
    const std::size_t end = settings.find(',');
    const std::string_view item = settings.substr(0, end);
    const std::size_t colon = item.find(':');
    if (colon != std::string_view::npos &&
        trimmed(item.substr(0, colon)) == "expandable_segments") {
      expandable = is_true_word(trimmed(item.substr(colon + 1)));
    }
    settings = end == std::string_view::npos ? std::string_view{} : settings.substr(end + 1);
  }
  return expandable;
}

std::optional<std::int64_t> whole_number(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::string scalar_text(const FieldScalar& value) {
  switch (value.kind) {
    case FieldScalar::Kind::null:
      return {};
    case FieldScalar::Kind::boolean:
      return value.boolean ? "1" : "0";
    case FieldScalar::Kind::integer:
      return fmt::format("{}", value.integer);
    case FieldScalar::Kind::real:
      return fmt::format("{}", value.real);
    case FieldScalar::Kind::text:
      return std::string(value.text);
  }
  return {};
}

/// `9.0`, `sm_90` and `90` all mean 90.
std::int32_t compute_capability_from(std::string_view text) {
  std::string_view digits = text;
  if (digits.starts_with("sm_")) digits.remove_prefix(3);
  const std::size_t dot = digits.find('.');
  const std::optional<std::int64_t> whole = whole_number(digits.substr(0, dot));
  const std::optional<std::int64_t> tenth =
      dot == std::string_view::npos ? 0 : whole_number(digits.substr(dot + 1));
  if (!whole || !tenth || *whole < 1 || *whole > 999 || *tenth < 0 || *tenth > 9) {
    throw InputError(fmt::format(
        "compute_capability: {} is no compute capability; write 9.0 or sm_90", quoted_word(text)));
  }
  // Below 30 the number is the major version: no device has a capability like 2.9 any more.
  const bool is_major = dot != std::string_view::npos || *whole < 30;
  return static_cast<std::int32_t>(is_major ? *whole * 10 + *tenth : *whole);
}

}  // namespace

Version parse_version(std::string_view text) {
  std::array<std::int32_t, 3> parts{};
  std::size_t count = 0;
  std::string_view rest = text;
  while (count < parts.size()) {
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), parts[count]);
    if (error != std::errc() || parts[count] < 0) break;
    ++count;
    rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
    if (rest.empty() || rest.front() != '.') break;
    rest.remove_prefix(1);
  }
  if (count == 0) {
    throw InputError(fmt::format("{} is no version; write one such as 2.12.0", quoted_word(text)));
  }
  return {parts[0], parts[1], parts[2]};
}

std::span<const std::string_view> environment_variables() {
  return variable_names;
}

void EnvironmentBuilder::set_variable(std::string_view name, std::string_view value) {
  if (name == "PYTORCH_CUDA_ALLOC_CONF") {
    cuda_alloc_conf_ = std::string(value);
  } else if (name == "PYTORCH_ALLOC_CONF") {
    alloc_conf_ = std::string(value);
  } else if (name == "NCCL_GRAPH_REGISTER") {
    // NCCL reads a number and keeps its default, on, for anything else.
    settings_.nccl_graph_register = whole_number(value).value_or(1) != 0;
    settings_.nccl_graph_register_misspelt = !*settings_.nccl_graph_register && value != "0";
  } else if (name == "CUDA_DEVICE_MAX_CONNECTIONS") {
    const std::optional<std::int64_t> number = whole_number(value);
    settings_.cuda_device_max_connections.reset();
    if (number && *number >= 0 && *number <= 1'000'000) {
      settings_.cuda_device_max_connections = static_cast<std::int32_t>(*number);
    }
  } else if (name == "CUDA_GRAPHS_USE_NODE_PRIORITY") {
    settings_.cuda_graphs_use_node_priority = value == "1";
  } else if (name == "NVTE_CPU_OFFLOAD_V1") {
    settings_.nvte_cpu_offload_v1 = value == "1";
  }
}

void EnvironmentBuilder::set(std::string_view key, const FieldScalar& value) {
  const bool is_variable =
      !key.empty() && key.find_first_of("abcdefghijklmnopqrstuvwxyz") == std::string_view::npos;
  const bool is_null = value.kind == FieldScalar::Kind::null;
  if (is_variable) {
    if (!is_null) set_variable(key, scalar_text(value));
    return;
  }
  if (key != "compute_capability" && key != "transformer_engine" && key != "torch" &&
      key != "nccl") {
    std::vector<std::string_view> known(variable_names.begin(), variable_names.end());
    known.insert(known.end(), other_keys.begin(), other_keys.end());
    throw InputError(fmt::format("environment: {} is not known{}", quoted_word(key),
                                 nearest_hint(key.substr(0, longest_quoted_word), known)));
  }
  if (is_null) return;
  const std::string text = scalar_text(value);
  if (key == "compute_capability") {
    settings_.compute_capability = compute_capability_from(text);
  } else if (key == "transformer_engine") {
    settings_.transformer_engine = parse_version(text);
  } else if (key == "torch") {
    settings_.torch = parse_version(text);
  } else {
    settings_.nccl = parse_version(text);
  }
}

PlatformSettings EnvironmentBuilder::build() const {
  PlatformSettings settings = settings_;
  if (cuda_alloc_conf_ || alloc_conf_) {
    // PyTorch prefers the newer variable; the frameworks' test reads the older one only.
    settings.expandable_segments = expandable_in(alloc_conf_ ? *alloc_conf_ : *cuda_alloc_conf_);
    settings.expandable_segments_as_tested =
        cuda_alloc_conf_ && cuda_alloc_conf_->find("expandable_segments:True") != std::string::npos;
  }
  return settings;
}

PlatformSettings current_environment(const PlatformSettings& base) {
  EnvironmentBuilder builder(base);
  for (std::string_view name : variable_names) {
    if (const char* value = std::getenv(std::string(name).c_str())) {
      builder.set_variable(name, value);
    }
  }
  return builder.build();
}

}  // namespace cgconform::matrix

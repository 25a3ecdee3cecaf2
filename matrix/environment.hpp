#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "matrix/field_value.hpp"
#include "matrix/platform_settings.hpp"

namespace cgconform::matrix {

/// Collects environment variables and facts of the machine, in any order, into
/// `PlatformSettings`.
class EnvironmentBuilder {
 public:
  explicit EnvironmentBuilder(const PlatformSettings& base) : settings_(base) {}

  /// A variable of the process environment; variables that no rule reads are ignored.
  void set_variable(std::string_view name, std::string_view value);

  /// A key of the `environment` object: a variable (its name is in capitals), `compute_capability`,
  /// or the version of `transformer_engine`, `torch` or `nccl`. Throws InputError for other keys
  /// and for values that cannot be read.
  void set(std::string_view key, const FieldScalar& value);

  PlatformSettings build() const;

 private:
  PlatformSettings settings_;
  std::optional<std::string> cuda_alloc_conf_;
  std::optional<std::string> alloc_conf_;
};

/// The variables of an environment that rules read.
std::span<const std::string_view> environment_variables();

/// The settings that this process's environment gives.
PlatformSettings current_environment(const PlatformSettings& base);

/// Reads `2.12`, `2.9.0a0+git1234` and the like. Throws InputError.
Version parse_version(std::string_view text);

}  // namespace cgconform::matrix

#pragma once

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <span>
#include <string>

#include "matrix/constraint_engine.hpp"
#include "matrix/field_table.hpp"
#include "matrix/platform_settings.hpp"
#include "matrix/training_config.hpp"

namespace cgconform::matrix {

/// Upper bound on the number of fields; `field_table()` is checked against it.
constexpr std::size_t max_fields = 128;
using FieldSet = std::bitset<max_fields>;

/// The order in which an input named the items of its scope; Megatron keeps it.
struct ScopeOrder {
  std::array<CudaGraphModule, 9> items{};
  std::uint8_t size = 0;
};

/// One configuration as read: values, what was written rather than taken from defaults, and where.
struct CheckInput {
  TrainingConfig config;
  PlatformSettings platform;
  FieldSet given;
  ScopeOrder scope_order;
  std::size_t line = 0;  ///< where the configuration begins; 0 for arguments
};

struct InputOptions {
  /// Fields with defaults of their own take those of this ruleset's framework.
  Ruleset ruleset = Ruleset::seed;
  /// What an input leaves open, such as the environment of this process.
  PlatformSettings platform;
  /// Unknown names in a flat configuration are ignored rather than errors.
  bool allow_unknown = false;
};

using InputConsumer = std::function<void(const CheckInput&)>;

/// What the framework that `ruleset` models assumes where a field is absent.
TrainingConfig framework_defaults(Ruleset ruleset);

/// Reads JSON: an object, an array of objects, or objects one after another (JSON Lines). Each is
/// flat, wrapped as {"config": ..., "environment": ...}, or a Megatron-Bridge container. Calls
/// `consume` for each as soon as it is complete; memory does not grow with their number. Throws
/// InputError with source, line and column.
void read_json_inputs(std::istream& stream, const std::string& source, const InputOptions& options,
                      const InputConsumer& consume);

/// Reads the same from YAML, one configuration a document.
void read_yaml_inputs(std::istream& stream, const std::string& source, const InputOptions& options,
                      const InputConsumer& consume);

/// Reads a Megatron-LM argument list, or the overrides of Bridge's performance scripts (options
/// spelt with underscores). Options that have nothing to do with CUDA graphs are skipped. Throws
/// InputError that names the argument.
CheckInput read_argument_input(std::span<const std::string> arguments, const InputOptions& options);

}  // namespace cgconform::matrix

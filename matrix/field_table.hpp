#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "matrix/enum_set.hpp"
#include "matrix/field_value.hpp"
#include "matrix/training_config.hpp"

namespace cgconform::matrix {

/// Sections of a Megatron-Bridge configuration container, and `arguments` for Megatron-LM's list.
enum class FieldHome : std::uint8_t {
  model,
  ddp,
  rng,
  rerun_state_machine,
  comm_overlap,
  train,
  dataset,
  optimizer,
  mixed_precision,
  arguments,
};
using FieldHomes = EnumSet<FieldHome>;

/// Index of a field in the field table.
enum class FieldIndex : std::uint8_t {};

/// Bytes that hold the value of any field.
using FieldBytes = std::array<std::byte, sizeof(MoeLayerFreq)>;

/// One field of `TrainingConfig`. Parsers, JSON, arguments, documents and reports derive from it.
struct Field {
  std::string_view name;                    ///< Megatron's own name
  std::array<std::string_view, 2> aliases;  ///< other accepted names
  FieldHomes homes;                         ///< sections that hold it
  std::string_view type;                    ///< for people: `boolean`, `integer`, a list of names
  /// Stores a value; throws InputError that tells what was expected.
  void (*read)(const FieldValue&, TrainingConfig&) = nullptr;
  nlohmann::json (*write)(const TrainingConfig&) = nullptr;
  void (*save)(const TrainingConfig&, FieldBytes&) = nullptr;
  void (*load)(TrainingConfig&, const FieldBytes&) = nullptr;
  bool (*equal)(const TrainingConfig&, const TrainingConfig&) = nullptr;
};

/// The section called `name` in a container.
std::optional<FieldHome> find_section(std::string_view name);

/// All fields, in the order of `TrainingConfig`.
std::span<const Field> field_table();
const Field& field_at(FieldIndex index);

/// The field called `name` (or one of its aliases).
std::optional<FieldIndex> find_field(std::string_view name);

/// The known field name nearest to `name`.
std::string_view nearest_field(std::string_view name);

/// `find_field`, or InputError that names the nearest field.
FieldIndex require_field(std::string_view name);

/// Sets `field` of `config`; null restores the default. Throws InputError naming the field.
void set_field(TrainingConfig& config, FieldIndex field, const FieldValue& value);

/// A field and a value, validated once, that can be applied millions of times at the price of a
/// small copy.
class FieldAssignment {
 public:
  /// Throws InputError for a value that the field cannot hold.
  FieldAssignment(FieldIndex field, const FieldValue& value);

  FieldIndex field() const { return field_; }
  void apply(TrainingConfig& config) const { load_(config, bytes_); }

 private:
  FieldIndex field_;
  void (*load_)(TrainingConfig&, const FieldBytes&);
  alignas(std::uint64_t) FieldBytes bytes_{};
};

}  // namespace cgconform::matrix

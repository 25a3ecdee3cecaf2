#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "matrix/environment.hpp"
#include "matrix/input.hpp"

namespace cgconform::matrix {

/// Line and column of an input, both from 1.
struct InputPlace {
  std::size_t line = 1;
  std::size_t column = 1;
};

/// Turns the structural events of JSON or YAML (mappings, lists, keys, scalars) into
/// configurations, one pass and without building a tree. It knows the three shapes of an input:
/// flat, wrapped with an environment, and a Bridge container with sections.
class InputDocument {
 public:
  InputDocument(std::string source, const InputOptions& options, const InputConsumer& consume);

  void begin_mapping(InputPlace place);
  void end_mapping(InputPlace place);
  void begin_list(InputPlace place);
  void end_list(InputPlace place);
  void key(std::string_view name, InputPlace place);
  void scalar(const FieldScalar& value, InputPlace place);
  /// A value that the format allows and this reader does not follow, such as a YAML alias.
  void opaque_value(std::string_view what, InputPlace place);

  /// Throws InputError with source, line and column.
  [[noreturn]] void fail(InputPlace place, std::string_view message) const;

  /// How many mappings and lists are open.
  std::size_t depth() const { return levels_.size(); }

 private:
  enum class Kind : std::uint8_t {
    root_list,    ///< a list of configurations
    entry,        ///< a configuration, or its wrapper
    config,       ///< the object under `config`
    section,      ///< a section of a container, in `home`
    packing,      ///< dataset.packed_sequence_specs
    environment,  ///< the object under `environment`
    field_list,   ///< the list of a field
    skipped,      ///< something that has nothing to do with CUDA graphs
  };
  struct Level {
    Kind kind = Kind::skipped;
    FieldHome home = FieldHome::model;
  };

  void push(Level level, InputPlace place);
  Level level_of_mapping(InputPlace place);
  void begin_entry(InputPlace place);
  void finish_entry();
  /// The field that the current key names at this level; none where it is skipped.
  std::optional<FieldIndex> current_field();
  void note_unknown_key();
  void store(FieldIndex field, const FieldValue& value);

  std::string source_;
  const InputOptions& options_;
  const InputConsumer& consume_;
  TrainingConfig defaults_;

  std::vector<Level> levels_;
  std::string key_;
  InputPlace key_place_;

  CheckInput input_;
  EnvironmentBuilder environment_;
  bool is_container_ = false;
  std::optional<std::string> unknown_key_;
  InputPlace unknown_place_;
  std::vector<std::uint8_t> field_section_;  ///< the section that set a field, plus one

  std::optional<FieldIndex> list_field_;
  std::vector<std::string> list_texts_;
  std::vector<FieldScalar> list_items_;
};

}  // namespace cgconform::matrix

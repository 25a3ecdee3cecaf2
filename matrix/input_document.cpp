#include "matrix/input_document.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "matrix/error.hpp"
#include "matrix/input_finish.hpp"
#include "matrix/quoted_word.hpp"

namespace cgconform::matrix {

namespace {

constexpr std::size_t deepest_nesting = 32;
constexpr std::size_t longest_list = 1024;
/// A section number for fields written outside of any section.
constexpr std::uint8_t no_section = 100;

bool is_about_graphs(std::string_view name) {
  return name.find("cuda_graph") != std::string_view::npos;
}

}  // namespace

InputDocument::InputDocument(std::string source, const InputOptions& options,
                             const InputConsumer& consume)
    : source_(std::move(source)),
      options_(options),
      consume_(consume),
      defaults_(framework_defaults(options.ruleset)),
      environment_(options.platform),
      field_section_(field_table().size(), 0) {}

void InputDocument::fail(InputPlace place, std::string_view message) const {
  throw InputError(fmt::format("{}:{}:{}: {}", source_, place.line, place.column, message));
}

void InputDocument::push(Level level, InputPlace place) {
  if (levels_.size() >= deepest_nesting) {
    fail(place, fmt::format("nested deeper than {} levels", deepest_nesting));
  }
  levels_.push_back(level);
}

void InputDocument::begin_entry(InputPlace place) {
  input_.config = defaults_;
  input_.given.reset();
  input_.scope_order = {};
  input_.line = place.line;
  environment_ = EnvironmentBuilder(options_.platform);
  is_container_ = false;
  unknown_key_.reset();
  std::fill(field_section_.begin(), field_section_.end(), std::uint8_t{0});
}

void InputDocument::finish_entry() {
  if (unknown_key_ && !is_container_ && !options_.allow_unknown) {
    fail(unknown_place_, *unknown_key_);
  }
  input_.config.origin = is_container_ ? ConfigOrigin::container : ConfigOrigin::fields;
  input_.platform = environment_.build();
  finish_input(input_);
  consume_(input_);
}

InputDocument::Level InputDocument::level_of_mapping(InputPlace place) {
  if (levels_.empty() || levels_.back().kind == Kind::root_list) {
    begin_entry(place);
    return {Kind::entry};
  }
  const Level outer = levels_.back();
  switch (outer.kind) {
    case Kind::entry:
      if (key_ == "config") return {Kind::config};
      if (key_ == "environment") return {Kind::environment};
      [[fallthrough]];
    case Kind::config:
      if (const std::optional<FieldHome> home = find_section(key_)) {
        is_container_ = true;
        return {Kind::section, *home};
      }
      if (find_field(key_) && !is_container_) {
        fail(place, fmt::format("{}: an object is given where a value is expected", key_));
      }
      note_unknown_key();
      return {Kind::skipped};
    case Kind::section:
      if (outer.home == FieldHome::dataset && key_ == "packed_sequence_specs") {
        return {Kind::packing, FieldHome::dataset};
      }
      if (outer.home == FieldHome::dataset && key_ == "dataset_kwargs") return outer;
      return {Kind::skipped};
    case Kind::environment:
      if (key_ == "variables" || key_ == "versions") return {Kind::environment};
      fail(place, fmt::format("environment: {} holds an object where a value is expected",
                              quoted_word(key_)));
    case Kind::field_list:
      fail(place, fmt::format("{}: a list of values must not hold objects", key_));
    case Kind::root_list:
    case Kind::packing:
    case Kind::skipped:
      break;
  }
  return {Kind::skipped};
}

void InputDocument::begin_mapping(InputPlace place) {
  push(level_of_mapping(place), place);
}

void InputDocument::end_mapping(InputPlace) {
  const Level level = levels_.back();
  levels_.pop_back();
  if (level.kind == Kind::entry) finish_entry();
}

void InputDocument::key(std::string_view name, InputPlace place) {
  // Keys of skipped parts are never read again, but a later value may name its key in a message.
  key_.assign(name);
  key_place_ = place;
  if (name == "<<" && levels_.back().kind != Kind::skipped) {
    fail(place, "merging mappings with << is not supported; write the values out");
  }
}

void InputDocument::note_unknown_key() {
  if (unknown_key_ || key_.starts_with('_')) return;
  unknown_place_ = key_place_;
  unknown_key_ = fmt::format("{} is not a known field; did you mean '{}'?", quoted_word(key_),
                             nearest_field(key_));
}

std::optional<FieldIndex> InputDocument::current_field() {
  const Level level = levels_.back();
  if (level.kind == Kind::entry || level.kind == Kind::config) {
    const std::optional<FieldIndex> field = find_field(key_);
    if (!field) note_unknown_key();
    return field;
  }
  if (level.kind != Kind::section) return std::nullopt;
  const std::optional<FieldIndex> field = find_field(key_);
  if (field && field_at(*field).homes.contains(level.home)) return field;
  if (!field && is_about_graphs(key_) && !options_.allow_unknown) {
    fail(key_place_, fmt::format("{} is not a known field; did you mean '{}'?", quoted_word(key_),
                                 nearest_field(key_)));
  }
  return std::nullopt;
}

void InputDocument::store(FieldIndex field, const FieldValue& value) {
  const auto index = static_cast<std::size_t>(field);
  const Level level = levels_.back();
  const bool in_section = level.kind == Kind::section;
  const auto section =
      in_section ? static_cast<std::uint8_t>(static_cast<unsigned>(level.home) + 1) : no_section;
  const auto overlap_section =
      static_cast<std::uint8_t>(static_cast<unsigned>(FieldHome::comm_overlap) + 1);
  if (field_section_[index] == section) {
    fail(key_place_, fmt::format("{} is given twice", field_at(field).name));
  }
  // Null leaves the default, and what comm_overlap sets overrides the model's own value.
  if (value.is_null() || field_section_[index] == overlap_section) return;
  try {
    set_field(input_.config, field, value);
  } catch (const InputError& error) {
    fail(key_place_, error.what());
  }
  field_section_[index] = section;
  input_.given.set(index);
  const std::string_view name = field_at(field).name;
  if (name == "cuda_graph_scope" || name == "cuda_graph_modules") {
    note_scope_order(input_.scope_order, value);
  }
}

void InputDocument::begin_list(InputPlace place) {
  if (levels_.empty()) {
    push({Kind::root_list}, place);
    return;
  }
  if (levels_.back().kind == Kind::root_list) {
    fail(place, "a configuration must be an object, not a list");
  }
  if (levels_.back().kind == Kind::field_list) {
    fail(place, fmt::format("{}: a list of values must not hold lists", key_));
  }
  if (levels_.back().kind == Kind::environment) {
    fail(place,
         fmt::format("environment: {} holds a list where a value is expected", quoted_word(key_)));
  }
  list_field_ = current_field();
  list_items_.clear();
  push({list_field_ ? Kind::field_list : Kind::skipped}, place);
}

void InputDocument::end_list(InputPlace) {
  const Level level = levels_.back();
  levels_.pop_back();
  if (level.kind != Kind::field_list) return;
  for (std::size_t i = 0; i < list_items_.size(); ++i) {
    if (list_items_[i].kind == FieldScalar::Kind::text) list_items_[i].text = list_texts_[i];
  }
  FieldValue value;
  value.is_list = true;
  value.items = list_items_;
  store(*list_field_, value);
}

void InputDocument::scalar(const FieldScalar& value, InputPlace place) {
  if (levels_.empty() || levels_.back().kind == Kind::root_list) {
    fail(place, "a configuration must be an object");
  }
  switch (levels_.back().kind) {
    case Kind::field_list: {
      const std::size_t count = list_items_.size();
      if (count >= longest_list) {
        fail(place, fmt::format("{}: a list of more than {} values", key_, longest_list));
      }
      if (list_texts_.size() <= count) list_texts_.emplace_back();
      list_texts_[count].assign(value.text);
      list_items_.push_back(value);
      return;
    }
    case Kind::environment:
      try {
        environment_.set(key_, value);
      } catch (const InputError& error) {
        if (!options_.allow_unknown) fail(key_place_, error.what());
      }
      return;
    case Kind::packing:
      if (key_ == "packed_sequence_size" && value.kind == FieldScalar::Kind::integer &&
          value.integer > 0) {
        input_.config.sequence_packing = SequencePacking::offline;
      } else if (key_ == "pad_cu_seqlens" && value.kind == FieldScalar::Kind::boolean) {
        input_.config.pad_cu_seqlens = value.boolean;
      }
      return;
    case Kind::section:
      if (levels_.back().home == FieldHome::dataset && key_ == "pack_sequences_in_batch" &&
          value.kind == FieldScalar::Kind::boolean && value.boolean) {
        input_.config.sequence_packing = SequencePacking::in_batch;
        return;
      }
      if (levels_.back().home == FieldHome::dataset && key_ == "packing_buffer_size" &&
          value.kind == FieldScalar::Kind::integer) {
        input_.config.sequence_packing = SequencePacking::energon;
        return;
      }
      break;
    default:
      break;
  }
  if (const std::optional<FieldIndex> field = current_field()) {
    FieldValue field_value;
    field_value.scalar = value;
    store(*field, field_value);
  }
}

void InputDocument::opaque_value(std::string_view what, InputPlace place) {
  if (levels_.empty() || levels_.back().kind == Kind::root_list) {
    fail(place, fmt::format("a configuration must be an object, not {}", what));
  }
  const Level level = levels_.back();
  const bool holds_fields = level.kind == Kind::entry || level.kind == Kind::config ||
                            level.kind == Kind::section || level.kind == Kind::environment ||
                            level.kind == Kind::packing;
  // A whole section may stand behind it.
  const bool sets_fields =
      holds_fields &&
      (key_ == "config" || key_ == "environment" || level.kind == Kind::environment ||
       level.kind == Kind::packing || key_ == "packed_sequence_specs" || key_ == "dataset_kwargs" ||
       find_section(key_).has_value());
  if (sets_fields || level.kind == Kind::field_list || current_field()) {
    fail(place, fmt::format("{}: {} is not supported; write the value out", key_, what));
  }
}

}  // namespace cgconform::matrix

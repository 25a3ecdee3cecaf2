#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "matrix/enum_names.hpp"
#include "matrix/error.hpp"
#include "matrix/input.hpp"
#include "matrix/input_finish.hpp"
#include "matrix/nearest_name.hpp"
#include "matrix/quoted_word.hpp"

namespace cgconform::matrix {

namespace {

constexpr std::size_t most_arguments = 100'000;
constexpr std::size_t most_values = 1024;

/// An option whose name does not follow from that of its field, or that sets a fixed value.
struct SpecialOption {
  std::string_view option;  ///< without dashes, with underscores
  std::string_view field;
  std::string_view value = {};  ///< what a flag sets; empty where the option takes values
};

constexpr SpecialOption special_options[] = {
    {"disable_bias_linear", "add_bias_linear", "false"},
    {"recompute_activations", "recompute_granularity", "selective"},
    {"num_virtual_stages_per_pipeline_rank", "virtual_pipeline_model_parallel_size"},
    {"overlap_p2p_communication", "overlap_p2p_comm", "true"},
    {"no_overlap_p2p_communication", "overlap_p2p_comm", "false"},
    {"hybrid_override_pattern", "is_hybrid_model", "true"},
    {"hybrid_layer_pattern", "is_hybrid_model", "true"},
    {"no_check_for_nan_in_loss", "check_for_nan_in_loss", "false"},
    {"no_check_for_nan_in_grad", "check_for_nan_in_grad", "false"},
    // Short names of the performance scripts.
    {"tp", "tensor_model_parallel_size"},
    {"pp", "pipeline_model_parallel_size"},
    {"vp", "virtual_pipeline_model_parallel_size"},
    {"ep", "expert_model_parallel_size"},
    {"mb", "micro_batch_size"},
    {"gb", "global_batch_size"},
};

bool is_boolean_field(const Field& field) {
  return field.type == "boolean";
}
bool is_list_field(const Field& field) {
  return field.type.starts_with("list");
}

/// True for `--name`, `-n`; false for values, among them negative numbers.
bool is_option(std::string_view word) {
  return word.size() > 1 && word[0] == '-' && !(word[1] >= '0' && word[1] <= '9') && word[1] != '.';
}

/// What one option means: a field, and the value of a flag.
struct Meaning {
  FieldIndex field;
  std::string_view flag_value;  ///< empty where the option takes values
};

std::optional<Meaning> meaning_of(std::string_view name) {
  for (const SpecialOption& special : special_options) {
    if (special.option == name) return Meaning{require_field(special.field), special.value};
  }
  if (const std::optional<FieldIndex> field = find_field(name)) {
    return Meaning{*field, is_boolean_field(field_at(*field)) ? "true" : ""};
  }
  if (name.starts_with("no_")) {
    const std::optional<FieldIndex> field = find_field(name.substr(3));
    if (field && is_boolean_field(field_at(*field))) return Meaning{*field, "false"};
  }
  return std::nullopt;
}

class ArgumentReader {
 public:
  ArgumentReader(std::span<const std::string> arguments, const InputOptions& options)
      : arguments_(arguments) {
    input_.config = framework_defaults(options.ruleset);
    input_.config.origin = ConfigOrigin::arguments;
    input_.platform = options.platform;
  }

  CheckInput read() {
    if (arguments_.size() > most_arguments) {
      throw InputError(fmt::format("arguments: more than {} of them", most_arguments));
    }
    while (next_ < arguments_.size()) {
      // Words before the first option, such as the name of the script, are of no interest.
      if (is_option(arguments_[next_])) {
        read_option();
      } else {
        ++next_;
      }
    }
    derive();
    finish_input(input_);
    return input_;
  }

 private:
  [[noreturn]] void fail(std::string_view message) const {
    throw InputError(fmt::format("arguments:{}: {}", option_at_ + 1, message));
  }

  void read_option() {
    option_at_ = next_;
    std::string_view word = arguments_[next_++];
    const bool is_long = word.starts_with("--");
    word.remove_prefix(is_long ? 2 : 1);

    std::vector<std::string_view> values;
    const std::size_t equals = word.find('=');
    if (equals != std::string_view::npos) {
      values.push_back(word.substr(equals + 1));
      word = word.substr(0, equals);
    } else {
      while (next_ < arguments_.size() && !is_option(arguments_[next_])) {
        values.emplace_back(arguments_[next_++]);
        if (values.size() > most_values) fail("too many values");
      }
    }
    // Bridge's performance scripts spell these options with underscores.
    if (word.starts_with("cuda_graph")) input_.config.origin = ConfigOrigin::performance_overrides;

    std::string name(word.substr(0, longest_quoted_word));
    std::replace(name.begin(), name.end(), '-', '_');
    if (!is_long && name.size() > 2) return;
    apply(name, values);
  }

  void apply(const std::string& name, const std::vector<std::string_view>& values) {
    if (name == "num_layers_per_virtual_pipeline_stage") {
      layers_per_virtual_stage_ = whole_number(name, values);
      return;
    }
    const std::optional<Meaning> meaning = meaning_of(name);
    if (!meaning) {
      if (name.find("cuda_graph") != std::string::npos) refuse_unknown(name);
      return;
    }
    if (meaning->flag_value.empty()) {
      set_values(meaning->field, name, values);
    } else {
      set_flag(*meaning, name, values);
    }
  }

  [[noreturn]] void refuse_unknown(const std::string& name) const {
    std::string nearest(nearest_field(name));
    std::replace(nearest.begin(), nearest.end(), '_', '-');
    fail(fmt::format("{} is not a known option; did you mean '--{}'?",
                     quoted_word(arguments_[option_at_]), nearest));
  }

  void set_flag(const Meaning& meaning, const std::string& name,
                const std::vector<std::string_view>& values) {
    FieldScalar scalar = plain_scalar(meaning.flag_value);
    const bool has_word =
        values.size() == 1 && plain_scalar(values[0]).kind == FieldScalar::Kind::boolean;
    if (has_word && meaning.flag_value == "true") scalar = plain_scalar(values[0]);
    FieldValue value;
    value.scalar = scalar;
    set(meaning.field, value);

    // One flag of Megatron-LM stands for several fields of the other containers.
    const std::string_view field = field_at(meaning.field).name;
    if (field == "te_rng_tracker") {
      set(require_field("use_te_rng_tracker"), value);
    } else if (field == "check_for_nan_in_loss_and_grad") {
      set(require_field("check_for_nan_in_loss"), value);
      set(require_field("check_for_nan_in_grad"), value);
    } else if (name == "no_check_for_nan_in_loss") {
      set(require_field("check_for_nan_in_loss_and_grad"), value);
    }
  }

  void set_values(FieldIndex index, const std::string& name,
                  const std::vector<std::string_view>& values) {
    const Field& field = field_at(index);
    if (values.empty() && !is_list_field(field)) {
      fail(fmt::format("--{} needs a value", name));
    }
    std::vector<FieldScalar> items;
    if (is_list_field(field)) {
      for (std::string_view value : values) add_words(value, items);
      FieldValue list;
      list.is_list = true;
      list.items = items;
      set(index, list);
      return;
    }
    // Megatron-LM reads a list expression from one word; a shell may have split it.
    if (values.size() > 1) {
      fail(fmt::format("--{} takes one value and is given {}", name, values.size()));
    }
    FieldValue value;
    value.scalar = plain_scalar(values.front());
    set(index, value);
  }

  static void add_words(std::string_view text, std::vector<FieldScalar>& items) {
    while (!text.empty()) {
      const std::size_t comma = text.find(',');
      const std::string_view word = text.substr(0, comma);
      if (!word.empty()) items.push_back(FieldScalar::of_text(word));
      text = comma == std::string_view::npos ? std::string_view{} : text.substr(comma + 1);
    }
  }

  void set(FieldIndex index, const FieldValue& value) {
    try {
      set_field(input_.config, index, value);
    } catch (const InputError& error) {
      fail(error.what());
    }
    if (value.is_null()) return;
    input_.given.set(static_cast<std::size_t>(index));
    const std::string_view name = field_at(index).name;
    if (name == "cuda_graph_scope" || name == "cuda_graph_modules") {
      note_scope_order(input_.scope_order, value);
    }
  }

  std::int32_t whole_number(const std::string& name,
                            const std::vector<std::string_view>& values) const {
    const FieldScalar scalar = values.size() == 1 ? plain_scalar(values[0]) : FieldScalar{};
    if (scalar.kind != FieldScalar::Kind::integer || scalar.integer < 1 ||
        scalar.integer > 1'000'000) {
      fail(fmt::format("--{} needs a positive integer", name));
    }
    return static_cast<std::int32_t>(scalar.integer);
  }

  void derive() {
    TrainingConfig& config = input_.config;
    if (layers_per_virtual_stage_ && config.pipeline_model_parallel_size > 0) {
      const std::int64_t layers = std::int64_t{config.pipeline_model_parallel_size} *
                                  std::int64_t{*layers_per_virtual_stage_};
      config.virtual_pipeline_model_parallel_size =
          static_cast<std::int32_t>(std::max<std::int64_t>(1, config.num_layers / layers));
      input_.given.set(
          static_cast<std::size_t>(require_field("virtual_pipeline_model_parallel_size")));
    }
  }

  std::span<const std::string> arguments_;
  std::size_t next_ = 0;
  std::size_t option_at_ = 0;
  std::optional<std::int32_t> layers_per_virtual_stage_;
  CheckInput input_;
};

}  // namespace

CheckInput read_argument_input(std::span<const std::string> arguments,
                               const InputOptions& options) {
  return ArgumentReader(arguments, options).read();
}

}  // namespace cgconform::matrix

#include "matrix/field_reader.hpp"

#include <cmath>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include <fmt/format.h>

#include "matrix/enum_names.hpp"
#include "matrix/error.hpp"
#include "matrix/nearest_name.hpp"
#include "matrix/quoted_word.hpp"

namespace cgconform::matrix {

namespace {

using Kind = FieldScalar::Kind;

std::string shown(const FieldValue& value) {
  if (value.is_list) return "a list";
  switch (value.scalar.kind) {
    case Kind::null:
      return "null";
    case Kind::boolean:
      return value.scalar.boolean ? "true" : "false";
    case Kind::integer:
      return fmt::format("{}", value.scalar.integer);
    case Kind::real:
      return fmt::format("{}", value.scalar.real);
    case Kind::text:
      return quoted_word(value.scalar.text);
  }
  return "a value";
}

[[noreturn]] void refuse(const FieldValue& value, std::string_view expected) {
  throw InputError(fmt::format("{} is given where {} is expected", shown(value), expected));
}

[[noreturn]] void refuse_item(const FieldScalar& item, std::string_view expected) {
  FieldValue value;
  value.scalar = item;
  refuse(value, expected);
}

template <typename E>
E enum_from(const FieldScalar& scalar) {
  if (scalar.kind == Kind::text) {
    if (const EnumName<E>* entry = find_enum<E>(scalar.text)) return entry->value;
  }
  std::vector<std::string_view> names;
  for (const EnumName<E>& entry : enum_names<E>()) names.push_back(entry.name);
  if (scalar.kind != Kind::text) {
    refuse_item(scalar, fmt::format("one of {}", fmt::join(names, ", ")));
  }
  throw InputError(fmt::format("{} is not a known value{}", quoted_word(scalar.text),
                               nearest_hint(scalar.text.substr(0, longest_quoted_word), names)));
}

template <typename E>
void read_enum(const FieldValue& value, E& out) {
  if (value.is_list) refuse(value, "one word");
  out = enum_from<E>(value.scalar);
}

/// A list of names, or one string with names separated by commas or blanks.
template <typename E>
void read_set(const FieldValue& value, EnumSet<E>& out) {
  out = {};
  if (value.is_list) {
    for (const FieldScalar& item : value.items) out.insert(enum_from<E>(item));
    return;
  }
  if (value.scalar.kind != Kind::text) refuse(value, "a list of names");
  std::string_view rest = value.scalar.text;
  while (!rest.empty()) {
    const std::size_t end = rest.find_first_of(", ");
    const std::string_view word = rest.substr(0, end);
    if (!word.empty()) out.insert(enum_from<E>(FieldScalar::of_text(word)));
    rest = end == std::string_view::npos ? std::string_view{} : rest.substr(end + 1);
  }
}

/// Reads the list expressions Megatron-LM accepts for `--moe-layer-freq`, such as `([0]*1+[1]*3)*2`
/// and `[0,1,1]`, into zeros and ones.
class LayerPatternParser {
 public:
  explicit LayerPatternParser(std::string_view text) : rest_(text) {}

  std::vector<bool> parse() {
    std::vector<bool> layers = sum(0);
    skip_blanks();
    if (!rest_.empty()) fail();
    return layers;
  }

 private:
  static constexpr int deepest_nesting = 16;

  [[noreturn]] static void fail() {
    throw InputError(
        fmt::format("expected an integer, or a list of 0 and 1 of at most {} layers such as "
                    "[0,1,1,1] or ([0]*1+[1]*3)*2",
                    MoeLayerFreq::max_pattern_length));
  }

  void skip_blanks() {
    while (!rest_.empty() && rest_.front() == ' ') rest_.remove_prefix(1);
  }

  bool accept(char wanted) {
    skip_blanks();
    if (rest_.empty() || rest_.front() != wanted) return false;
    rest_.remove_prefix(1);
    return true;
  }

  int number() {
    skip_blanks();
    int result = 0;
    std::size_t digits = 0;
    while (digits < rest_.size() && rest_[digits] >= '0' && rest_[digits] <= '9') {
      result = result * 10 + (rest_[digits] - '0');
      if (result > MoeLayerFreq::max_pattern_length) fail();
      ++digits;
    }
    if (digits == 0) fail();
    rest_.remove_prefix(digits);
    return result;
  }

  std::vector<bool> list() {
    std::vector<bool> layers;
    if (accept(']')) return layers;
    do {
      const int layer = number();
      if (layer > 1) fail();
      layers.push_back(layer == 1);
      check_length(layers.size());
    } while (accept(','));
    if (!accept(']')) fail();
    return layers;
  }

  std::vector<bool> product(int depth) {
    if (depth > deepest_nesting) fail();
    std::vector<bool> layers;
    if (accept('[')) {
      layers = list();
    } else if (accept('(')) {
      layers = sum(depth + 1);
      if (!accept(')')) fail();
    } else {
      fail();
    }
    while (accept('*')) {
      const std::vector<bool> once = layers;
      const int times = number();
      check_length(once.size() * static_cast<std::size_t>(times));
      layers.clear();
      for (int i = 0; i < times; ++i) layers.insert(layers.end(), once.begin(), once.end());
    }
    return layers;
  }

  std::vector<bool> sum(int depth) {
    std::vector<bool> layers = product(depth);
    while (accept('+')) {
      const std::vector<bool> more = product(depth);
      check_length(layers.size() + more.size());
      layers.insert(layers.end(), more.begin(), more.end());
    }
    return layers;
  }

  static void check_length(std::size_t length) {
    if (length > static_cast<std::size_t>(MoeLayerFreq::max_pattern_length)) fail();
  }

  std::string_view rest_;
};

MoeLayerFreq layer_freq_from(const std::vector<bool>& layers) {
  MoeLayerFreq freq;
  freq.pattern_length = static_cast<std::int32_t>(layers.size());
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (layers[i]) freq.set_pattern_at(static_cast<std::int32_t>(i));
  }
  return freq;
}

}  // namespace

void read_field(const FieldValue& value, bool& out) {
  if (value.is_list || value.scalar.kind != Kind::boolean) refuse(value, "true or false");
  out = value.scalar.boolean;
}

void read_field(const FieldValue& value, std::int32_t& out) {
  std::int64_t number = value.scalar.integer;
  if (!value.is_list && value.scalar.kind == Kind::real &&
      value.scalar.real == std::floor(value.scalar.real) && std::abs(value.scalar.real) < 1e15) {
    number = static_cast<std::int64_t>(value.scalar.real);
  } else if (value.is_list || value.scalar.kind != Kind::integer) {
    refuse(value, "an integer");
  }
  if (number < std::numeric_limits<std::int32_t>::min() ||
      number > std::numeric_limits<std::int32_t>::max()) {
    refuse(value, "an integer of 32 bits");
  }
  out = static_cast<std::int32_t>(number);
}

void read_field(const FieldValue& value, float& out) {
  double number = value.scalar.real;
  if (!value.is_list && value.scalar.kind == Kind::integer) {
    number = static_cast<double>(value.scalar.integer);
  } else if (value.is_list || value.scalar.kind != Kind::real) {
    refuse(value, "a number");
  }
  if (!(std::abs(number) <= static_cast<double>(std::numeric_limits<float>::max()))) {
    refuse(value, "a finite number");
  }
  out = static_cast<float>(number);
}

void read_field(const FieldValue& value, CudaGraphImpl& out) {
  read_enum(value, out);
}
void read_field(const FieldValue& value, CudaGraphScope& out) {
  read_set(value, out);
}
void read_field(const FieldValue& value, InferenceCudaGraphScope& out) {
  read_enum(value, out);
}
void read_field(const FieldValue& value, RecomputeGranularity& out) {
  read_enum(value, out);
}
void read_field(const FieldValue& value, RecomputeMethod& out) {
  read_enum(value, out);
}
void read_field(const FieldValue& value, RecomputeModules& out) {
  read_set(value, out);
}
void read_field(const FieldValue& value, OffloadModules& out) {
  read_set(value, out);
}
void read_field(const FieldValue& value, MoeTokenDispatcherType& out) {
  read_enum(value, out);
}
void read_field(const FieldValue& value, MoeFlexDispatcherBackend& out) {
  read_enum(value, out);
}
void read_field(const FieldValue& value, TransformerImpl& out) {
  read_enum(value, out);
}
void read_field(const FieldValue& value, Fp8Format& out) {
  read_enum(value, out);
}
void read_field(const FieldValue& value, Fp8Recipe& out) {
  read_enum(value, out);
}
void read_field(const FieldValue& value, Fp8AmaxComputeAlgo& out) {
  read_enum(value, out);
}
void read_field(const FieldValue& value, CrossEntropyFusionImpl& out) {
  read_enum(value, out);
}
void read_field(const FieldValue& value, ParamsDtype& out) {
  read_enum(value, out);
}
void read_field(const FieldValue& value, OptimizerName& out) {
  read_enum(value, out);
}
void read_field(const FieldValue& value, SequencePacking& out) {
  read_enum(value, out);
}
void read_field(const FieldValue& value, ExperimentalAttentionVariant& out) {
  read_enum(value, out);
}

void read_field(const FieldValue& value, MoeLayerFreq& out) {
  if (value.is_list) {
    std::vector<bool> layers;
    for (const FieldScalar& item : value.items) {
      const bool layer_kind =
          item.kind == Kind::integer && (item.integer == 0 || item.integer == 1);
      if (!layer_kind) refuse_item(item, "0 (a dense layer) or 1 (a MoE layer)");
      layers.push_back(item.integer == 1);
    }
    if (layers.empty()) refuse(value, "an integer or a list with one entry a layer");
    if (layers.size() > static_cast<std::size_t>(MoeLayerFreq::max_pattern_length)) {
      refuse(value, fmt::format("a list of at most {} layers", MoeLayerFreq::max_pattern_length));
    }
    out = layer_freq_from(layers);
    return;
  }
  if (value.scalar.kind == Kind::text) {
    out = layer_freq_from(LayerPatternParser(value.scalar.text).parse());
    return;
  }
  MoeLayerFreq freq;
  read_field(value, freq.every);
  if (freq.every < 1) refuse(value, "a positive integer or a list of 0 and 1");
  out = freq;
}

void read_field(const FieldValue& value, HybridPattern& out) {
  const bool text = !value.is_list && value.scalar.kind == Kind::text;
  const auto pattern = text ? HybridPattern::parse(value.scalar.text) : std::nullopt;
  if (!pattern) {
    refuse(value, fmt::format("1 to {} letters, M (Mamba), * (attention), - (MLP) or E (MoE)",
                              HybridPattern::max_length));
  }
  out = *pattern;
}

}  // namespace cgconform::matrix

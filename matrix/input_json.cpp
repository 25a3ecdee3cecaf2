#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "matrix/char_source.hpp"
#include "matrix/error.hpp"
#include "matrix/input.hpp"
#include "matrix/input_document.hpp"

namespace cgconform::matrix {

namespace {

/// One configuration may not be larger than this.
constexpr std::size_t largest_document = std::size_t{16} * 1024 * 1024;

/// Passes nlohmann's SAX events on.
class JsonEvents {
 public:
  using number_integer_t = nlohmann::json::number_integer_t;
  using number_unsigned_t = nlohmann::json::number_unsigned_t;
  using number_float_t = nlohmann::json::number_float_t;
  using string_t = nlohmann::json::string_t;
  using binary_t = nlohmann::json::binary_t;

  JsonEvents(const CharSource& source, InputDocument& document)
      : source_(source), document_(document) {}

  bool null() { return scalar({}); }
  bool boolean(bool value) { return scalar(FieldScalar::of_boolean(value)); }
  bool number_integer(number_integer_t value) { return scalar(FieldScalar::of_integer(value)); }
  bool number_unsigned(number_unsigned_t value) {
    constexpr auto largest =
        static_cast<number_unsigned_t>(std::numeric_limits<std::int64_t>::max());
    if (value > largest) return scalar(FieldScalar::of_real(static_cast<double>(value)));
    return scalar(FieldScalar::of_integer(static_cast<std::int64_t>(value)));
  }
  bool number_float(number_float_t value, const string_t&) {
    return scalar(FieldScalar::of_real(value));
  }
  bool string(string_t& value) { return scalar(FieldScalar::of_text(value)); }
  bool binary(binary_t&) { return false; }

  bool start_object(std::size_t) {
    check_size();
    document_.begin_mapping(source_.place());
    return true;
  }
  bool key(string_t& name) {
    check_size();
    InputPlace place = source_.place();
    // The lexer stands behind the closing quote; the message points at the opening one.
    const std::size_t length = name.size() + 1;
    place.column = place.column > length ? place.column - length : 1;
    document_.key(name, place);
    return true;
  }
  bool end_object() {
    document_.end_mapping(source_.place());
    if (document_.depth() <= 1) document_start_ = source_.offset();
    return true;
  }
  bool start_array(std::size_t) {
    document_.begin_list(source_.place());
    return true;
  }
  bool end_array() {
    document_.end_list(source_.place());
    return true;
  }

  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception& error) {
    // The library's message begins with its own id and place, and ends with the reason.
    const std::string_view text = error.what();
    const std::size_t reason = text.find("; ");
    const std::size_t bracket = text.find("] ");
    std::string_view shown = text;
    if (reason != std::string_view::npos) {
      shown = text.substr(reason + 2);
    } else if (bracket != std::string_view::npos) {
      shown = text.substr(bracket + 2);
    }
    document_.fail(source_.place(), fmt::format("this is not JSON: {}", shown.substr(0, 200)));
  }

 private:
  bool scalar(const FieldScalar& value) {
    check_size();
    document_.scalar(value, source_.place());
    return true;
  }

  void check_size() const {
    if (source_.offset() - document_start_ > largest_document) {
      document_.fail(source_.place(),
                     fmt::format("a configuration of more than {} bytes", largest_document));
    }
  }

  const CharSource& source_;
  InputDocument& document_;
  std::size_t document_start_ = 0;
};

bool skip_blanks(CharSource& source) {
  while (!source.at_end()) {
    const char c = source.peek();
    if (c != ' ' && c != '\t' && c != '\n' && c != '\r') return true;
    source.advance();
  }
  return false;
}

}  // namespace

void read_json_inputs(std::istream& stream, const std::string& source_name,
                      const InputOptions& options, const InputConsumer& consume) {
  CharSource source(stream);
  InputDocument document(source_name, options, consume);
  JsonEvents events(source, document);
  bool any = false;
  while (skip_blanks(source)) {
    any = true;
    nlohmann::json::sax_parse(CharSourceIterator(source), CharSourceIterator(), &events,
                              nlohmann::json::input_format_t::json, /*strict=*/false);
  }
  if (!any) document.fail(source.place(), "the input is empty");
}

}  // namespace cgconform::matrix

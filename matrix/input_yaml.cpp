#include <istream>
#include <sstream>
#include <vector>

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include "matrix/error.hpp"
#include "matrix/input.hpp"
#include "matrix/input_document.hpp"

namespace cgconform::matrix {

namespace {

constexpr std::size_t largest_file = std::size_t{16} * 1024 * 1024;

InputPlace place_of(const YAML::Mark& mark) {
  return {static_cast<std::size_t>(mark.line < 0 ? 0 : mark.line) + 1,
          static_cast<std::size_t>(mark.column < 0 ? 0 : mark.column) + 1};
}

/// Passes yaml-cpp's events on; keys and values of a mapping arrive alternately.
class YamlEvents : public YAML::EventHandler {
 public:
  explicit YamlEvents(InputDocument& document) : document_(document) {}

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override {
    take_value(FieldScalar{}, "null", mark);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    if (expects_key()) document_.fail(place_of(mark), "a key must be a word");
    document_.opaque_value("an alias", place_of(mark));
    value_taken();
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                const std::string& value) override {
    // A plain scalar has the tag "?"; quoted ones and those with a tag of their own are text.
    const bool plain = tag == "?" || tag.empty();
    take_value(plain ? plain_scalar(value) : FieldScalar::of_text(value), value, mark);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    if (expects_key()) document_.fail(place_of(mark), "a key must be a word, not a list");
    document_.begin_list(place_of(mark));
    levels_.push_back({false, false});
    last_ = place_of(mark);
  }
  void OnSequenceEnd() override {
    levels_.pop_back();
    document_.end_list(last_);
    value_taken();
  }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {
    if (expects_key()) document_.fail(place_of(mark), "a key must be a word, not a mapping");
    document_.begin_mapping(place_of(mark));
    levels_.push_back({true, true});
    last_ = place_of(mark);
  }
  void OnMapEnd() override {
    levels_.pop_back();
    document_.end_mapping(last_);
    value_taken();
  }

 private:
  struct Level {
    bool is_mapping;
    bool key_is_next;
  };

  bool expects_key() const {
    return !levels_.empty() && levels_.back().is_mapping && levels_.back().key_is_next;
  }
  void value_taken() {
    if (!levels_.empty() && levels_.back().is_mapping) levels_.back().key_is_next = true;
  }
  void take_value(const FieldScalar& value, std::string_view text, const YAML::Mark& mark) {
    last_ = place_of(mark);
    if (expects_key()) {
      document_.key(text, last_);
      levels_.back().key_is_next = false;
      return;
    }
    document_.scalar(value, last_);
    value_taken();
  }

  InputDocument& document_;
  std::vector<Level> levels_;
  InputPlace last_;
};

std::string read_all(std::istream& stream, const InputDocument& document) {
  std::string text;
  std::vector<char> chunk(std::size_t{64} * 1024);
  while (stream.read(chunk.data(), static_cast<std::streamsize>(chunk.size())) ||
         stream.gcount() > 0) {
    text.append(chunk.data(), static_cast<std::size_t>(stream.gcount()));
    if (text.size() > largest_file) {
      document.fail({}, fmt::format("a YAML input of more than {} bytes", largest_file));
    }
  }
  return text;
}

}  // namespace

void read_yaml_inputs(std::istream& stream, const std::string& source, const InputOptions& options,
                      const InputConsumer& consume) {
  bool any = false;
  const InputConsumer counting = [&](const CheckInput& input) {
    any = true;
    consume(input);
  };
  InputDocument document(source, options, counting);
  std::istringstream text(read_all(stream, document));
  try {
    YAML::Parser parser(text);
    while (true) {
      YamlEvents events(document);
      if (!parser.HandleNextDocument(events)) break;
    }
  } catch (const YAML::Exception& error) {
    document.fail(place_of(error.mark), fmt::format("this is not YAML: {}", error.msg));
  }
  if (!any) document.fail({}, "the input holds no configuration");
}

}  // namespace cgconform::matrix

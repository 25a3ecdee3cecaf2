#include "suites/dot_summary.hpp"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <set>
#include <string>

#include <fmt/format.h>

#include "matrix/error.hpp"

namespace cgconform::suites {
namespace {

/// The words of a DOT text: names, quoted names, `->`, and single signs.
class DotWords {
 public:
  explicit DotWords(std::string_view text) : text_(text) { next(); }

  const std::string& word() const { return word_; }
  bool quoted() const { return quoted_; }
  bool at_end() const { return word_.empty() && !quoted_; }
  bool is(std::string_view sign) const { return !quoted_ && word_ == sign; }

  void next() {
    while (place_ < text_.size() && is_space(text_[place_])) ++place_;
    word_.clear();
    quoted_ = place_ < text_.size() && text_[place_] == '"';
    if (quoted_) {
      read_quoted();
    } else if (text_.substr(place_, 2) == "->") {
      take(2);
    } else if (place_ < text_.size() && is_name(text_[place_])) {
      std::size_t length = 1;
      while (place_ + length < text_.size() && is_name(text_[place_ + length])) ++length;
      take(length);
    } else if (place_ < text_.size()) {
      take(1);
    }
  }

  void expect(std::string_view sign) {
    if (!is(sign)) refuse(fmt::format("'{}' expected", sign));
    next();
  }

  [[noreturn]] void refuse(std::string_view what) const {
    throw InternalError(fmt::format("DOT dump, character {}: {}, '{}' found", place_, what, word_));
  }

 private:
  static bool is_space(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }
  static bool is_name(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.';
  }

  void take(std::size_t length) {
    word_ = text_.substr(place_, length);
    place_ += length;
  }

  void read_quoted() {
    for (++place_; place_ < text_.size() && text_[place_] != '"'; ++place_) {
      if (text_[place_] == '\\' && place_ + 1 < text_.size()) word_ += text_[place_++];
      word_ += text_[place_];
    }
    if (place_ == text_.size()) refuse("end of a quoted name expected");
    ++place_;
  }

  std::string_view text_;
  std::size_t place_ = 0;
  std::string word_;
  bool quoted_ = false;
};

class DotParser {
 public:
  explicit DotParser(std::string_view text) : words_(text) {}

  workloads::GraphSize parse() {
    words_.expect("digraph");
    if (!words_.is("{")) words_.next();
    parse_block();
    if (!words_.at_end()) words_.refuse("end of the graph expected");
    return {.nodes = nodes_.size(), .edges = edges_};
  }

 private:
  void parse_block() {
    words_.expect("{");
    while (!words_.is("}")) {
      if (words_.at_end()) words_.refuse("'}' expected");
      parse_statement();
    }
    words_.next();
  }

  void parse_statement() {
    if (words_.is(";")) return words_.next();
    if (words_.is("subgraph")) {
      words_.next();
      if (!words_.is("{")) words_.next();
      return parse_block();
    }
    std::string name = parse_name();
    if (words_.is("=")) {  // an attribute of the graph
      words_.next();
      parse_name();
      return;
    }
    const bool defaults = name == "graph" || name == "node" || name == "edge";
    if (!defaults) nodes_.insert(name);
    while (words_.is("->")) {
      words_.next();
      nodes_.insert(parse_name());
      ++edges_;
    }
    if (words_.is("[")) parse_attributes();
  }

  std::string parse_name() {
    const bool name =
        words_.quoted() ||
        (!words_.at_end() && std::isalnum(static_cast<unsigned char>(words_.word().front())) != 0);
    if (!name) words_.refuse("a name expected");
    std::string word = words_.word();
    words_.next();
    return word;
  }

  void parse_attributes() {
    words_.expect("[");
    while (!words_.is("]")) {
      if (words_.at_end()) words_.refuse("']' expected");
      words_.next();
    }
    words_.next();
  }

  DotWords words_;
  std::set<std::string> nodes_;
  std::size_t edges_ = 0;
};

}  // namespace

workloads::GraphSize dot_size(std::string_view dot) {
  return DotParser(dot).parse();
}

}  // namespace cgconform::suites

#pragma once

#include <cstddef>
#include <cstdint>
#include <istream>
#include <iterator>
#include <string>
#include <vector>

#include "matrix/input_document.hpp"

namespace cgconform::matrix {

/// Reads a stream character by character through a fixed buffer and knows the place.
class CharSource {
 public:
  explicit CharSource(std::istream& stream) : stream_(stream), buffer_(buffer_size) { fill(); }

  bool at_end() const { return next_ == end_; }
  char peek() const { return buffer_[next_]; }
  void advance() {
    ++offset_;
    if (buffer_[next_] == '\n') {
      ++line_;
      line_start_ = offset_;
    }
    if (++next_ == end_) fill();
  }

  /// The place of the character that was read last.
  InputPlace place() const {
    const std::size_t column = offset_ - line_start_;
    return {line_, column == 0 ? 1 : column};
  }
  std::size_t offset() const { return offset_; }

 private:
  static constexpr std::size_t buffer_size = std::size_t{64} * 1024;

  void fill() {
    stream_.read(buffer_.data(), static_cast<std::streamsize>(buffer_.size()));
    next_ = 0;
    end_ = static_cast<std::size_t>(stream_.gcount());
  }

  std::istream& stream_;
  std::vector<char> buffer_;
  std::size_t next_ = 0;
  std::size_t end_ = 0;
  std::size_t offset_ = 0;
  std::size_t line_ = 1;
  std::size_t line_start_ = 0;
};

/// An input iterator over a `CharSource`; a default-constructed one is the end.
class CharSourceIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = char;

  CharSourceIterator() = default;
  explicit CharSourceIterator(CharSource& source) : source_(&source) {}

  char operator*() const { return source_->peek(); }
  CharSourceIterator& operator++() {
    source_->advance();
    return *this;
  }
  CharSourceIterator operator++(int) {
    const CharSourceIterator before = *this;
    source_->advance();
    return before;
  }
  friend bool operator==(const CharSourceIterator& a, const CharSourceIterator& b) {
    return a.finished() == b.finished();
  }

 private:
  bool finished() const { return source_ == nullptr || source_->at_end(); }
  CharSource* source_ = nullptr;
};

}  // namespace cgconform::matrix

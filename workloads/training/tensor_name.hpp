#pragma once

#include <compare>
#include <memory>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>

namespace cgconform::workloads {

/// The name of a tensor of a leg. A leg shows the same tensors step after step, so copies share one
/// text.
class TensorName {
 public:
  TensorName() = default;
  TensorName(std::string text) : text_(std::make_shared<const std::string>(std::move(text))) {}
  TensorName(std::string_view text) : TensorName(std::string(text)) {}
  TensorName(const char* text) : TensorName(std::string(text)) {}

  const std::string& text() const {
    static const std::string none;
    return text_ ? *text_ : none;
  }
  operator std::string_view() const { return text(); }
  bool starts_with(std::string_view prefix) const { return text().starts_with(prefix); }
  std::size_t find(std::string_view part) const { return text().find(part); }

  friend bool operator==(const TensorName& a, const TensorName& b) {
    return a.text_ == b.text_ || a.text() == b.text();
  }
  friend std::strong_ordering operator<=>(const TensorName& a, const TensorName& b) {
    return a.text() <=> b.text();
  }
  friend bool operator==(const TensorName& a, std::string_view b) { return a.text() == b; }
  friend bool operator==(const TensorName& a, const std::string& b) { return a.text() == b; }
  friend bool operator==(const TensorName& a, const char* b) { return a.text() == b; }
  friend std::ostream& operator<<(std::ostream& out, const TensorName& name) {
    return out << name.text();
  }

 private:
  std::shared_ptr<const std::string> text_;
};

}  // namespace cgconform::workloads

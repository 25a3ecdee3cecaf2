#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace cgconform::matrix {

/// What one layer of a hybrid model is.
enum class HybridLayer : std::uint8_t { mamba, attention, mlp, moe };

/// `hybrid_layer_pattern`: one character a layer, in Megatron's letters. Empty where it is not
/// given; then the layers of a hybrid model repeat `M*M-`.
struct HybridPattern {
  static constexpr std::string_view letters = "M*-E";  ///< in the order of HybridLayer
  static constexpr std::int32_t max_length = 128;

  std::int32_t length = 0;
  std::array<std::uint64_t, 4> words{};  ///< two bits a layer

  constexpr bool empty() const { return length == 0; }
  /// A shorter pattern than the model, and an absent one, begins anew.
  constexpr HybridLayer at(std::int32_t layer) const {
    if (empty()) {
      constexpr std::array cycle{HybridLayer::mamba, HybridLayer::attention, HybridLayer::mamba,
                                 HybridLayer::mlp};
      return cycle[static_cast<std::size_t>(layer) % cycle.size()];
    }
    const auto place = static_cast<std::size_t>(layer % length);
    return static_cast<HybridLayer>((words[place / 32] >> (place % 32 * 2)) & 3U);
  }
  /// Nothing where the text holds another letter, none at all or too many.
  static constexpr std::optional<HybridPattern> parse(std::string_view text) {
    if (text.empty() || text.size() > static_cast<std::size_t>(max_length)) return std::nullopt;
    HybridPattern pattern;
    pattern.length = static_cast<std::int32_t>(text.size());
    for (std::size_t place = 0; place < text.size(); ++place) {
      const std::size_t letter = letters.find(text[place]);
      if (letter == std::string_view::npos) return std::nullopt;
      pattern.words[place / 32] |= std::uint64_t{letter} << (place % 32 * 2);
    }
    return pattern;
  }
  friend constexpr bool operator==(const HybridPattern&, const HybridPattern&) = default;
};

}  // namespace cgconform::matrix

#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace cgconform::matrix {

/// What a rule of the constraint table keeps from happening.
enum class Protection : std::uint8_t {
  physical,     ///< a failure of running work: wrong results, a failed capture, a crash, a hang
  wording,      ///< names, spellings, and combinations without a meaning
  unbuilt,      ///< a model or combination that the frameworks do not have, graphs or not
  version,      ///< a library too old for what is asked
  bookkeeping,  ///< the framework's own records; an assertion is all that happens
  reading,      ///< says how a verdict reads an ambiguity; the rule beside it has the probe
  statement,    ///< nothing: it says what the code does or repairs
};

/// Rules that protect against one thing that is not physical.
struct UnphysicalRules {
  Protection protection;
  std::span<const std::string_view> rules;
};

/// Every rule that protects against nothing physical, once. All others do, and have a row in the
/// table of probes.
std::span<const UnphysicalRules> unphysical_rules();

/// What the rule of a known id protects against.
Protection protection_of(std::string_view rule);
/// In words, as in `protects against nothing physical: TEXT`.
std::string_view protection_text(Protection protection);

}  // namespace cgconform::matrix

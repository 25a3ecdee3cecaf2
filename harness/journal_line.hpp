#pragma once

#include <optional>
#include <string>

namespace cgconform::harness {

/// A line of a journal, line feed included: the JSON object `object` with a last member `chain`,
/// the hash over it and the chain of the line before. `chain` becomes that of this line.
std::string chained_line(const std::string& object, std::string& chain);

/// The object of a line without its line feed, and `chain` as above; empty where the line is not
/// what was written behind a line with this chain.
std::optional<std::string> unchained(const std::string& line, std::string& chain);

}  // namespace cgconform::harness

#include "harness/journal_line.hpp"

#include <string_view>

#include <fmt/format.h>
#include <xxhash.h>

namespace cgconform::harness {
namespace {

constexpr std::string_view chain_begin = R"(,"chain":")";
constexpr std::string_view chain_end = R"("})";
constexpr std::size_t hash_digits = 16;
constexpr std::size_t chain_length = chain_begin.size() + hash_digits + chain_end.size();

std::string next_chain(const std::string& chain, std::string_view object) {
  const std::string text = fmt::format("{}{}", chain, object);
  return fmt::format("{:016x}", XXH3_64bits(text.data(), text.size()));
}

}  // namespace

std::string chained_line(const std::string& object, std::string& chain) {
  chain = next_chain(chain, object);
  // The object's closing brace makes room for the chain.
  return fmt::format("{}{}{}{}\n", std::string_view(object).substr(0, object.size() - 1),
                     chain_begin, chain, chain_end);
}

std::optional<std::string> unchained(const std::string& line, std::string& chain) {
  if (line.size() < chain_length) return std::nullopt;
  const std::string_view tail = std::string_view(line).substr(line.size() - chain_length);
  if (!tail.starts_with(chain_begin) || !tail.ends_with(chain_end)) return std::nullopt;
  std::string object = line.substr(0, line.size() - chain_length) + '}';
  const std::string expected = next_chain(chain, object);
  if (tail.substr(chain_begin.size(), hash_digits) != expected) return std::nullopt;
  chain = expected;
  return object;
}

}  // namespace cgconform::harness

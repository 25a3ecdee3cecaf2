#include "matrix/json_document.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "matrix/error.hpp"

namespace cgconform::matrix {
namespace {

constexpr int maximum_depth = 64;

/// nlohmann's messages are `[json.exception...] parse error at line 1, column 2: REASON`.
std::string_view reason_of(std::string_view message) {
  const std::size_t place = message.find("column ");
  const std::size_t colon = message.find(": ", place == std::string_view::npos ? 0 : place);
  return colon == std::string_view::npos ? message : message.substr(colon + 2);
}

/// The same without place: `[json.exception...] REASON`.
std::string_view message_of(const nlohmann::json::exception& error) {
  const std::string_view message = error.what();
  const std::size_t end = message.find("] ");
  return end == std::string_view::npos ? message : message.substr(end + 2);
}

}  // namespace

nlohmann::json parse_json_document(std::string_view text, std::string_view source) {
  std::vector<std::set<std::string>> keys;
  const auto check = [&](int depth, nlohmann::json::parse_event_t event, nlohmann::json& parsed) {
    using Event = nlohmann::json::parse_event_t;
    if (depth > maximum_depth) {
      throw InputError(fmt::format("{}: more than {} levels of nesting", source, maximum_depth));
    }
    if (event == Event::object_start) keys.emplace_back();
    if (event == Event::object_end) keys.pop_back();
    if (event == Event::key && !keys.back().insert(parsed.get<std::string>()).second) {
      throw InputError(fmt::format("{}: the key '{}' stands twice in one object; keep one", source,
                                   parsed.get<std::string>()));
    }
    return true;
  };
  try {
    return nlohmann::json::parse(text.begin(), text.end(), check);
  } catch (const nlohmann::json::parse_error& error) {
    const std::size_t at = std::min(text.size(), error.byte == 0 ? 0 : error.byte - 1);
    const std::string_view before = text.substr(0, at);
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    const std::size_t newline = before.rfind('\n');
    const std::size_t column = newline == std::string_view::npos ? at + 1 : at - newline;
    throw InputError(fmt::format("{}, line {}, column {}: not valid JSON: {}", source, line, column,
                                 reason_of(error.what())));
  } catch (const nlohmann::json::out_of_range& error) {
    throw InputError(
        fmt::format("{}: not valid JSON: {}; write a smaller number", source, message_of(error)));
  }
}

}  // namespace cgconform::matrix

#include "matrix/axis_help.hpp"

#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "matrix/axis.hpp"

namespace cgconform::matrix {
namespace {

std::string code(const std::vector<std::string_view>& words) {
  return words.empty() ? std::string() : fmt::format("`{}`", fmt::join(words, "`, `"));
}

}  // namespace

std::string axis_table_markdown() {
  std::string text =
      "| axis | other names | meaning | values | default | sets |\n|---|---|---|---|---|---|\n";
  for (const AxisDefinition& row : axis_table()) {
    text += fmt::format("| `{}` | {} | {} | {}{} | `{}` | {} |\n", row.name, code(row.aliases),
                        row.summary, code(row.examples), row.closed ? "" : ", …", row.default_token,
                        code(row.fields));
  }
  return text;
}

std::string axis_table_text() {
  std::string text;
  for (const AxisDefinition& row : axis_table()) {
    text += fmt::format("  {:<14} {}; {}{}\n", row.name, row.summary, fmt::join(row.examples, " "),
                        row.closed ? "" : " ...");
  }
  return text;
}

}  // namespace cgconform::matrix

#include "tests/tooling/include_rules.hpp"

#include <algorithm>
#include <array>
#include <deque>
#include <regex>

#include <fmt/format.h>

namespace cgconform::tooling {
namespace {

/// What files whose path matches `includer` may include from the project.
struct FolderRule {
  std::string_view folder;
  std::string_view allowed;  ///< regular expression over the included path
  std::string_view words;    ///< the same, for the message
};

constexpr std::array folder_rules{
    FolderRule{"matrix", "matrix/.*", "matrix"},
    FolderRule{"workloads", "(matrix|workloads)/.*", "workloads and matrix"},
    FolderRule{"suites", "(matrix|workloads|suites)/.*", "suites, workloads and matrix"},
    FolderRule{"reports", "(matrix|reports)/.*|suites/(.*/)?(verdict[^/]*|[^/]*result[^/]*)",
               "reports, matrix and the verdict and result headers of suites"},
    FolderRule{"harness", "(matrix|workloads|suites|reports|harness)/.*",
               "the five folders, not tests or benchmarks"},
};

constexpr std::string_view fault_state = "workloads/faults/fault_switches.hpp";

std::string folder_of(std::string_view path) {
  return std::string(path.substr(0, path.find('/')));
}

}  // namespace

std::vector<Include> quoted_includes(const std::string& text) {
  static const std::regex pattern(R"re(^\s*#\s*include\s*"([^"]+)".*)re");
  std::vector<Include> includes;
  int number = 0;
  for (const std::string& line : lines_of(text)) {
    ++number;
    std::smatch match;
    if (std::regex_match(line, match, pattern)) {
      includes.push_back({match[1].str(), number});
    }
  }
  return includes;
}

std::vector<std::string> folder_rule_violations(const SourceFile& file) {
  std::vector<std::string> violations;
  const std::string folder = folder_of(file.path);
  const auto rule = std::find_if(folder_rules.begin(), folder_rules.end(),
                                 [&](const FolderRule& row) { return row.folder == folder; });
  if (rule == folder_rules.end()) {
    return violations;
  }
  const std::regex allowed{std::string(rule->allowed)};
  const bool judges = folder == "suites" || folder == "reports";
  for (const Include& include : quoted_includes(file.text)) {
    if (!std::regex_match(include.path, allowed)) {
      violations.push_back(fmt::format(
          "{}:{}: includes \"{}\"; {} may include {}, each by its path from the repository root",
          file.path, include.line, include.path, folder, rule->words));
    } else if (judges && include.path == fault_state) {
      violations.push_back(fmt::format("{}:{}: {} must not see the state of the fault switches",
                                       file.path, include.line, folder));
    }
  }
  return violations;
}

std::string include_chain(const std::map<std::string, std::string>& files, const std::string& start,
                          std::string_view target) {
  std::map<std::string, std::string> reached_from{{start, ""}};
  std::deque<std::string> queue{start};
  while (!queue.empty()) {
    const std::string current = queue.front();
    queue.pop_front();
    if (current == target) {
      std::string chain = current;
      for (std::string step = reached_from[current]; !step.empty(); step = reached_from[step]) {
        chain.insert(0, fmt::format("{} -> ", step));
      }
      return chain;
    }
    const auto file = files.find(current);
    if (file == files.end()) {
      continue;
    }
    for (const Include& include : quoted_includes(file->second)) {
      if (reached_from.emplace(include.path, current).second) {
        queue.push_back(include.path);
      }
    }
  }
  return {};
}

}  // namespace cgconform::tooling

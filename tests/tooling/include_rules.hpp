#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tests/tooling/source_tree.hpp"

namespace cgconform::tooling {

/// One `#include "..."` of a project file.
struct Include {
  std::string path;  ///< as written
  int line = 0;      ///< 1-based
};

/// The quoted includes of a file, in order. Comments are not includes.
std::vector<Include> quoted_includes(const std::string& text);

/// What is wrong with the includes of one file, one message each ("file:line: reason"); empty when
/// the file keeps the folder rule: a folder includes only what stands above it (workloads: matrix;
/// suites: workloads, matrix; reports: matrix and the verdict and result headers of suites;
/// harness: all), and suites and reports never the state of the fault switches.
std::vector<std::string> folder_rule_violations(const SourceFile& file);

/// A chain of includes from `start` to `target` ("a.hpp -> b.hpp -> target"), or empty when
/// `target` cannot be reached. `files` maps path to text.
std::string include_chain(const std::map<std::string, std::string>& files, const std::string& start,
                          std::string_view target);

}  // namespace cgconform::tooling

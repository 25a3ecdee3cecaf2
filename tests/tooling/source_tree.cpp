#include "tests/tooling/source_tree.hpp"

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string_view>

namespace cgconform::tooling {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 11> folders{"matrix",  "workloads", "suites", "reports",
                                                   "harness", "scripts",   "tests",  "benchmarks",
                                                   "cmake",   "docs",      ".ci"};

SourceFile read(const fs::path& root, const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {fs::relative(file, root).generic_string(),
          std::string(std::istreambuf_iterator<char>(stream), {})};
}

}  // namespace

std::vector<SourceFile> source_tree(const fs::path& root) {
  std::vector<SourceFile> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(root)) {
    if (entry.is_regular_file() && entry.path().filename() != ".git") {
      files.push_back(read(root, entry.path()));
    }
  }
  for (const std::string_view folder : folders) {
    if (!fs::exists(root / folder)) {
      continue;
    }
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root / folder)) {
      if (entry.is_regular_file()) {
        files.push_back(read(root, entry.path()));
      }
    }
  }
  std::sort(files.begin(), files.end(),
            [](const SourceFile& a, const SourceFile& b) { return a.path < b.path; });
  return files;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    lines.push_back(line);
  }
  return lines;
}

}  // namespace cgconform::tooling

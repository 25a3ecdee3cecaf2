#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace cgconform::tooling {

/// One text file of the project.
struct SourceFile {
  std::string path;  ///< from the repository root, with '/'
  std::string text;
};

/// Every regular file of the project's own folders and of the root, sorted by path. Build folders,
/// reports and the version control's files are not among them.
std::vector<SourceFile> source_tree(const std::filesystem::path& root);

/// The lines of a text without their line ends.
std::vector<std::string> lines_of(const std::string& text);

}  // namespace cgconform::tooling

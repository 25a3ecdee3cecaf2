#include <algorithm>
#include <filesystem>
#include <regex>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/build_paths.hpp"
#include "tests/tooling/source_tree.hpp"

namespace cgconform::tooling {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr std::size_t longest_file = 800;

const fs::path root = CGCONFORM_SOURCE_DIR;

std::string text_of(const std::vector<SourceFile>& tree, const std::string& path) {
  const auto file = std::find_if(tree.begin(), tree.end(),
                                 [&](const SourceFile& row) { return row.path == path; });
  return file == tree.end() ? std::string() : file->text;
}

/// Places of the tree ("file:line: text") that match, this file excepted: it has to name what it
/// looks for.
std::vector<std::string> matches(const std::vector<SourceFile>& tree, const std::regex& pattern) {
  std::vector<std::string> found;
  for (const SourceFile& file : tree) {
    if (file.path == "tests/tooling/hygiene_test.cpp" || !std::regex_search(file.text, pattern)) {
      continue;
    }
    int number = 0;
    for (const std::string& line : lines_of(file.text)) {
      ++number;
      if (std::regex_search(line, pattern)) {
        found.push_back(file.path + ":" + std::to_string(number) + ": " + line);
      }
    }
  }
  return found;
}

TEST(SourceTree, HoldsTheFoldersOfTheProject) {
  const std::vector<SourceFile> tree = source_tree(root);
  for (const char* path : {"CMakeLists.txt", "matrix/error.hpp", "scripts/run_tests.sh"}) {
    EXPECT_FALSE(text_of(tree, path).empty()) << path;
  }
}

TEST(SourceTree, HasNoUnfinishedWorkMarkers) {
  EXPECT_THAT(matches(source_tree(root), std::regex(R"(\b(TODO|FIXME|XXX)\b)")),
              ::testing::IsEmpty());
}

TEST(SourceTree, NamesNoFolderOfOneMachine) {
  EXPECT_THAT(matches(source_tree(root), std::regex(R"((^|[^A-Za-z0-9_.])/work/|\.\./shared)")),
              ::testing::IsEmpty());
}

TEST(SourceTree, HasNoFileTooLongToRead) {
  for (const SourceFile& file : source_tree(root)) {
    EXPECT_LE(lines_of(file.text).size(), longest_file) << file.path;
  }
}

TEST(Documents, MentionEveryScript) {
  const std::vector<SourceFile> tree = source_tree(root);
  std::string documents = text_of(tree, "CONTRIBUTING.md") + text_of(tree, "README.md");
  for (const SourceFile& file : tree) {
    if (file.path.starts_with("docs/")) {
      documents += file.text;
    }
  }
  for (const SourceFile& file : tree) {
    if (file.path.starts_with("scripts/")) {
      EXPECT_THAT(documents, HasSubstr(fs::path(file.path).filename().string()));
    }
  }
}

TEST(Documents, AreAllInTheIndex) {
  const std::vector<SourceFile> tree = source_tree(root);
  const std::string index = text_of(tree, "docs/README.md");
  for (const SourceFile& file : tree) {
    if (file.path.starts_with("docs/") && file.path.ends_with(".md")) {
      const std::string name = file.path.substr(std::string("docs/").size());
      EXPECT_TRUE(name == "README.md" || index.find("](" + name + ")") != std::string::npos)
          << file.path << " is not linked from docs/README.md";
    }
  }
}

TEST(Documents, LinkToFilesThatExist) {
  const std::regex link(R"(\]\(([^):#]+)(#[^)]*)?\))");
  for (const SourceFile& file : source_tree(root)) {
    if (!file.path.ends_with(".md")) {
      continue;
    }
    const fs::path folder = (root / file.path).parent_path();
    for (std::sregex_iterator match(file.text.begin(), file.text.end(), link), end; match != end;
         ++match) {
      EXPECT_TRUE(fs::exists(folder / (*match)[1].str()))
          << file.path << " links to " << (*match)[1];
    }
  }
}

TEST(Readme, OpensWithTwoCommandsThatExist) {
  const std::string readme = text_of(source_tree(root), "README.md");
  std::size_t last = 0;
  for (const std::string command : {"scripts/run_smoke.sh", "scripts/run_tests.sh"}) {
    const std::size_t place = readme.find("\n    " + command);
    ASSERT_NE(place, std::string::npos) << command;
    EXPECT_LT(place, 1500U) << command << " stands too far down";
    EXPECT_GT(place, last);
    last = place;
    const fs::perms permissions = fs::status(root / command).permissions();
    EXPECT_NE(permissions & fs::perms::owner_exec, fs::perms::none) << command;
  }
}

}  // namespace
}  // namespace cgconform::tooling

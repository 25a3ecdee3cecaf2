#include "tests/tooling/include_rules.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/build_paths.hpp"

namespace cgconform::tooling {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* fault_state = "workloads/faults/fault_switches.hpp";

std::vector<std::string> violations(const std::string& path, const std::string& included) {
  return folder_rule_violations({path, "#pragma once\n#include \"" + included + "\"\n"});
}

TEST(FolderRule, RefusesAnIncludeOfAFolderBelow) {
  EXPECT_THAT(violations("matrix/cell.hpp", "workloads/device/device.hpp"),
              ElementsAre(HasSubstr("matrix/cell.hpp:2: includes")));
  EXPECT_THAT(violations("workloads/a.cpp", "suites/check.hpp"), ElementsAre(HasSubstr("suites")));
  EXPECT_THAT(violations("suites/a.cpp", "reports/console.hpp"), ElementsAre(HasSubstr("reports")));
  EXPECT_THAT(violations("reports/a.cpp", "harness/options.hpp"),
              ElementsAre(HasSubstr("harness")));
  EXPECT_THAT(violations("harness/a.cpp", "tests/tooling/source_tree.hpp"),
              ElementsAre(HasSubstr("tests")));
}

TEST(FolderRule, AcceptsIncludesOfFoldersAbove) {
  EXPECT_THAT(violations("workloads/a.cpp", "matrix/cell.hpp"), IsEmpty());
  EXPECT_THAT(violations("suites/a.cpp", "workloads/training/leg_record.hpp"), IsEmpty());
  EXPECT_THAT(violations("harness/a.cpp", "reports/console.hpp"), IsEmpty());
  EXPECT_THAT(violations("tests/matrix/a_test.cpp", "harness/options.hpp"), IsEmpty());
}

TEST(FolderRule, LetsReportsSeeOnlyVerdictsAndResultsOfSuites) {
  EXPECT_THAT(violations("reports/a.cpp", "suites/verdict.hpp"), IsEmpty());
  EXPECT_THAT(violations("reports/a.cpp", "suites/result_record.hpp"), IsEmpty());
  EXPECT_THAT(violations("reports/a.cpp", "suites/check.hpp"), ElementsAre(HasSubstr("check.hpp")));
  EXPECT_THAT(violations("reports/a.cpp", "workloads/device/device.hpp"),
              ElementsAre(HasSubstr("workloads")));
}

TEST(FolderRule, HidesTheFaultStateFromSuitesAndReportsAndShowsThemTheTable) {
  EXPECT_THAT(violations("suites/a.cpp", fault_state),
              ElementsAre(HasSubstr("state of the fault switches")));
  EXPECT_THAT(violations("reports/a.cpp", fault_state), ElementsAre(HasSubstr("may include")));
  EXPECT_THAT(violations("suites/a.cpp", "workloads/faults/fault_table.hpp"), IsEmpty());
  EXPECT_THAT(violations("harness/a.cpp", fault_state), IsEmpty());
}

TEST(FolderRule, RefusesAnIncludeByRelativePath) {
  EXPECT_THAT(violations("matrix/cell.cpp", "cell.hpp"),
              ElementsAre(HasSubstr("path from the repository root")));
}

TEST(FolderRule, IgnoresIncludesInComments) {
  EXPECT_THAT(folder_rule_violations({"matrix/a.hpp", "// #include \"suites/check.hpp\"\n"}),
              IsEmpty());
}

TEST(IncludeChain, NamesEveryStepToTheTarget) {
  const std::map<std::string, std::string> files{
      {"a", "#include \"b\"\n"}, {"b", "#include \"a\"\n#include \"c\"\n"}, {"c", ""}};
  EXPECT_EQ(include_chain(files, "a", "c"), "a -> b -> c");
  EXPECT_EQ(include_chain(files, "c", "a"), "");
}

class ProjectIncludes : public ::testing::Test {
 protected:
  ProjectIncludes() : tree_(source_tree(CGCONFORM_SOURCE_DIR)) {
    for (const SourceFile& file : tree_) {
      texts_[file.path] = file.text;
    }
  }

  const std::vector<SourceFile>& tree() const { return tree_; }
  const std::map<std::string, std::string>& texts() const { return texts_; }

 private:
  std::vector<SourceFile> tree_;
  std::map<std::string, std::string> texts_;
};

TEST_F(ProjectIncludes, KeepTheFolderRule) {
  std::size_t includes = 0;
  for (const SourceFile& file : tree()) {
    includes += quoted_includes(file.text).size();
    EXPECT_THAT(folder_rule_violations(file), IsEmpty());
  }
  EXPECT_GT(includes, 20U) << "the source tree was not read";
}

TEST_F(ProjectIncludes, NeverLeadFromSuitesOrReportsToTheFaultState) {
  ASSERT_TRUE(texts().contains(fault_state));
  for (const SourceFile& file : tree()) {
    if (file.path.starts_with("suites/") || file.path.starts_with("reports/")) {
      EXPECT_EQ(include_chain(texts(), file.path, fault_state), "");
    }
  }
}

}  // namespace
}  // namespace cgconform::tooling

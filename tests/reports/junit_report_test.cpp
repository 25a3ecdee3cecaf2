#include "reports/junit_report.hpp"

#include <string>

#include <gtest/gtest.h>

#include "tests/reports/sample_run.hpp"
#include "tests/temporary_directory.hpp"

namespace cgconform::reports {
namespace {

using cgconform::testing::TemporaryDirectory;

void load(const TemporaryDirectory& directory, pugi::xml_document& document) {
  const std::string path = (directory.path() / "junit.xml").string();
  ASSERT_TRUE(document.load_file(path.c_str()));
}

TEST(JunitReport, CountsAgreeWithItsCases) {
  const TemporaryDirectory directory;
  JunitReport report(directory.path());
  testing::play(report);
  pugi::xml_document document;
  load(directory, document);
  const pugi::xml_node suite = document.child("testsuites").child("testsuite");
  EXPECT_EQ(suite.attribute("tests").as_int(), 6);
  EXPECT_EQ(suite.attribute("failures").as_int(), 1);
  EXPECT_EQ(suite.attribute("errors").as_int(), 1);
  EXPECT_EQ(suite.attribute("skipped").as_int(), 2);
  EXPECT_EQ(suite.select_nodes("testcase").size(), 6U);
  EXPECT_EQ(suite.select_nodes("testcase/failure").size(), 1U);
  EXPECT_EQ(suite.select_nodes("testcase/error").size(), 1U);
}

TEST(JunitReport, FailureCarriesVerdictRankAndReproducer) {
  const TemporaryDirectory directory;
  JunitReport report(directory.path());
  testing::play(report);
  pugi::xml_document document;
  load(directory, document);
  const pugi::xml_node failure = document.select_node("//testcase/failure").node();
  EXPECT_STREQ(failure.attribute("type").value(), "FAIL_OVERWRITE");
  EXPECT_NE(std::string(failure.text().get()).find("--cell 3333333333333333"), std::string::npos);
  const pugi::xml_node rank =
      failure.parent().select_node("properties/property[@name='rank']").node();
  EXPECT_STREQ(rank.attribute("value").value(), "1");
}

TEST(JunitReport, IsAValidFileBeforeAnyCellEnds) {
  const TemporaryDirectory directory;
  JunitReport report(directory.path());
  report.begin(testing::sample_run());
  pugi::xml_document document;
  load(directory, document);
  EXPECT_EQ(document.child("testsuites").child("testsuite").attribute("tests").as_int(), 0);
}

TEST(JunitReport, CountsRefusedCellsOfHugeMatricesInsteadOfListingThem) {
  const TemporaryDirectory directory;
  JunitOptions options;
  options.max_cells_listed = 3;
  JunitReport report(directory.path(), options);
  testing::play(report);
  pugi::xml_document document;
  load(directory, document);
  EXPECT_EQ(document.select_nodes("//testcase").size(), 4U);
  EXPECT_TRUE(document.select_node("//testsuite/properties/property[@name='refused'][@value='1']"));
}

}  // namespace
}  // namespace cgconform::reports

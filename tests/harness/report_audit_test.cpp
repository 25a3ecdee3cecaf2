#include "harness/report_audit.hpp"

#include <fstream>
#include <initializer_list>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reports/json_report.hpp"
#include "reports/junit_report.hpp"
#include "tests/reports/sample_run.hpp"
#include "tests/temporary_directory.hpp"

namespace cgconform::harness {
namespace {

using ::testing::HasSubstr;
using testing::read_file;
using testing::TemporaryDirectory;

/// The reports of the sample run, written by the true writers.
class ReportAudit : public ::testing::Test {
 protected:
  ReportAudit() {
    reports::ResultsJsonl results(folder());
    reports::SummaryJson summary(folder());
    reports::JunitReport junit(folder());
    reports::SummaryCollector collector(reports::testing::sample_run().planned);
    for (const suites::CellResult& cell : reports::testing::sample_cells()) collector.add(cell);
    summary_ = collector.finish(1, "a check failed", 2.0);
    for (reports::ReportWriter* writer :
         std::initializer_list<reports::ReportWriter*>{&results, &summary, &junit}) {
      reports::testing::play(*writer);
    }
  }

  const std::filesystem::path& folder() const { return directory_.path(); }

  /// What the audit says of the reports once `from` stands as `to` in one of them.
  std::string complaint_after(const char* file, const std::string& from, const std::string& to) {
    std::string text = read_file(folder() / file);
    const std::size_t place = text.rfind(from);
    EXPECT_NE(place, std::string::npos) << file << " has no " << from;
    if (place != std::string::npos) text.replace(place, from.size(), to);
    std::ofstream(folder() / file, std::ios::binary) << text;
    return audit_reports(folder(), summary_);
  }

  reports::RunSummary summary_;

 private:
  TemporaryDirectory directory_;
};

TEST_F(ReportAudit, PassesReportsThatAgree) {
  EXPECT_EQ(audit_reports(folder(), summary_), "");
}

TEST_F(ReportAudit, SeesAnotherVerdictInTheResults) {
  EXPECT_THAT(
      complaint_after("results.jsonl", "\"verdict\":\"FAIL_OVERWRITE\"", "\"verdict\":\"PASS\""),
      HasSubstr("results.jsonl has"));
}

TEST_F(ReportAudit, SeesACellThatStandsTwice) {
  const std::string text = read_file(folder() / "results.jsonl");
  const std::string first = text.substr(0, text.find('\n') + 1);
  EXPECT_THAT(complaint_after("results.jsonl", first, first + first), HasSubstr("twice"));
}

TEST_F(ReportAudit, SeesAMissingCell) {
  const std::string text = read_file(folder() / "results.jsonl");
  EXPECT_THAT(complaint_after("results.jsonl", text.substr(0, text.find('\n') + 1), ""),
              HasSubstr("results.jsonl has 0 cells PASS"));
}

TEST_F(ReportAudit, SeesAnotherExitCode) {
  EXPECT_THAT(complaint_after("summary.json", "\"exit_code\": 1", "\"exit_code\": 0"),
              HasSubstr("summary.json has exit code 0"));
}

TEST_F(ReportAudit, SeesAnotherExitCodeInJunit) {
  EXPECT_THAT(complaint_after("junit.xml", R"(name="exit_code" value="1")",
                              R"(name="exit_code" value="0")"),
              HasSubstr("junit.xml has exit code 0"));
}

TEST_F(ReportAudit, SeesARedCellThatTurnedGreenInJunit) {
  std::string text = read_file(folder() / "junit.xml");
  const std::size_t begin = text.find("<failure");
  const std::string failure = text.substr(begin, text.find("</failure>") + 10 - begin);
  EXPECT_THAT(complaint_after("junit.xml", failure, ""), HasSubstr("red cells"));
}

TEST_F(ReportAudit, SeesATornFile) {
  std::ofstream(folder() / "junit.xml") << "<testsuites><testsu";
  EXPECT_THAT(audit_reports(folder(), summary_), HasSubstr("junit.xml"));
}

}  // namespace
}  // namespace cgconform::harness

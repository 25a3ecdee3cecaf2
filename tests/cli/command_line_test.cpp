#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/exit_codes.hpp"
#include "tests/program_run.hpp"
#include "tests/temporary_directory.hpp"

namespace cgconform::testing {
namespace {

using ::testing::HasSubstr;

TEST(CommandLine, HelpPrintsEveryExitCode) {
  const ProgramEnd end = run_cgconform({"--help"});
  EXPECT_EQ(end.exit_code, 0);
  for (const harness::ExitCodeRow& row : harness::exit_code_table()) {
    EXPECT_THAT(end.out, HasSubstr(std::string(row.meaning)));
  }
}

TEST(CommandLine, HidesWhatOnlyTheRunnersOwnTestsUse) {
  const ProgramEnd end = run_cgconform({"--help"});
  EXPECT_EQ(end.out.find("--mock"), std::string::npos);
}

TEST(CommandLine, RefusesTheFullMatrixOnAMachineWithoutAGpuUnlessTold) {
  const TemporaryDirectory directory;
  const ProgramEnd end =
      run_cgconform({"--matrix", "full", "--report", (directory.path() / "report").string()});
  EXPECT_EQ(end.exit_code, 3);
  EXPECT_THAT(end.err, HasSubstr("rank 0"));
  EXPECT_THAT(end.err, HasSubstr("--device reference"));
}

TEST(CommandLine, NeverOverwritesAReportWithoutForce) {
  const TemporaryDirectory directory;
  const std::string report = (directory.path() / "report").string();
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(run_cgconform({"--mock", R"([{}])", "--report", report}).exit_code, 0);
  }
  EXPECT_TRUE(std::filesystem::exists(report + "/journal.jsonl"));
  EXPECT_TRUE(std::filesystem::exists(report + ".1/journal.jsonl"));
  EXPECT_TRUE(std::filesystem::exists(report + ".2/journal.jsonl"));
  ASSERT_EQ(run_cgconform({"--mock", R"([{}])", "--report", report, "--force"}).exit_code, 0);
  EXPECT_FALSE(std::filesystem::exists(report + ".3"));
}

TEST(CommandLine, RunsAsOneRankWithoutALauncher) {
  const TemporaryDirectory directory;
  const ProgramEnd end = run_cgconform({"--mock", R"([{"count":3},{"behaviour":"baseline"}])",
                                        "--report", (directory.path() / "report").string()});
  EXPECT_EQ(end.exit_code, 0) << end.out << end.err;
  EXPECT_THAT(end.out, HasSubstr("total 4 = run 4 + refused 0 + skipped 0"));
}

TEST(CommandLine, ReproducerOfAFailureRepeatsIt) {
  const TemporaryDirectory directory;
  const ProgramEnd first =
      run_cgconform({"--mock", R"([{"count":2},{"behaviour":"failing_check","phase":"verify"}])",
                     "--report", (directory.path() / "first").string()});
  ASSERT_EQ(first.exit_code, 1);
  const std::string before = "repeat: ";
  const std::size_t begin = first.out.find(before + cgconform_program()) + before.size();
  ASSERT_GE(begin, before.size()) << first.out;
  const std::string line = first.out.substr(begin, first.out.find('\n', begin) - begin);
  const ProgramEnd second =
      run_program({"sh", "-c", line + " --report " + (directory.path() / "second").string()});
  EXPECT_EQ(second.exit_code, 1) << line << second.err;
  EXPECT_THAT(second.out, HasSubstr("FAIL_NUMERIC_MISMATCH"));
}

}  // namespace
}  // namespace cgconform::testing

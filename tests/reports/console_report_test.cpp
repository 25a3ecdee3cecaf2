#include "reports/console_report.hpp"

#include <cstdio>
#include <memory>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/reports/sample_run.hpp"

namespace cgconform::reports {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string printed(const ConsoleOptions& wanted) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), &std::fclose);
  ConsoleOptions options = wanted;
  options.out = file.get();
  ConsoleReport report(options);
  testing::play(report);
  std::string text(static_cast<std::size_t>(std::ftell(file.get())), '\0');
  std::rewind(file.get());
  text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  return text;
}

TEST(ConsoleReport, HeaderNamesTheFactsThatDifferBetweenRanks) {
  const std::string text = printed({});
  EXPECT_THAT(text, HasSubstr("MPI       4.1.6"));
  EXPECT_THAT(text, HasSubstr("rank 1    node-b pid 200 device reference NCCL_GRAPH_REGISTER=1"));
}

TEST(ConsoleReport, FailureNamesRankTensorAndTheLineThatRepeatsIt) {
  EXPECT_THAT(
      printed({}),
      AllOf(HasSubstr("FAIL_OVERWRITE impl=local/scope=mlp\n  rank 1 on node-b, check MEM-09"),
            HasSubstr("first wrong tensor: step 2, micro-batch 1, layer 0, output[5]"),
            HasSubstr("expected 1, got 2; 3 of 64 elements differ"),
            HasSubstr("also fired: NUM-02"),
            HasSubstr("repeat: mpirun -np 2 cgconform --matrix sample.json --cell "
                      "3333333333333333 --seed 7")));
}

TEST(ConsoleReport, CrashNamesPhaseSignalAndStack) {
  EXPECT_THAT(printed({}), AllOf(HasSubstr("rank 0 on node-a: CRASH in phase replay, signal 11"),
                                 HasSubstr("#0 gemm_kernel")));
}

TEST(ConsoleReport, SummaryAddsUpAndGroupsRefusalsAndSkips) {
  EXPECT_THAT(printed({}), AllOf(HasSubstr("total 6 = run 4 + refused 1 + skipped 1"),
                                 HasSubstr("1    moe-xor-router"), HasSubstr("1    duplicate of\n"),
                                 HasSubstr("exit code 1: a check failed")));
}

TEST(ConsoleReport, WritesNoEscapesUnlessColoursAreAskedFor) {
  EXPECT_THAT(printed({}), Not(HasSubstr("\x1b")));
  ConsoleOptions coloured;
  coloured.colour = true;
  EXPECT_THAT(printed(coloured), HasSubstr("\x1b[31m"));
}

TEST(SummaryCollector, CountsPlannedCellsWithoutVerdictAsMissing) {
  SummaryCollector collector(PlannedCounts{6, 4, 1, 1});
  collector.add(testing::passed_cell());
  collector.add(testing::refused_cell());
  EXPECT_EQ(collector.finish(5, "interrupted", 1.0).missing, 3U);
}

TEST(SummaryCollector, LeavesProvisionalVerdictsOut) {
  SummaryCollector collector(PlannedCounts{1, 1, 0, 0});
  suites::CellResult provisional = testing::wrong_cell();
  provisional.provisional = true;
  collector.add(provisional);
  EXPECT_TRUE(collector.finish(0, "", 0.0).failures.empty());
}

}  // namespace
}  // namespace cgconform::reports

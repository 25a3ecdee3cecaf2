#include "harness/selection.hpp"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/earlier_report.hpp"
#include "harness/exit_codes.hpp"
#include "harness/rounds_source.hpp"
#include "harness/run_limits.hpp"
#include "matrix/error.hpp"
#include "tests/temporary_directory.hpp"

namespace cgconform::harness {
namespace {

using std::chrono::milliseconds;
using suites::CellResult;
using suites::Verdict;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(TimeFrom, ReadsUnitsAndSecondsWithoutOne) {
  EXPECT_EQ(time_from("--budget", "90"), milliseconds{90000});
  EXPECT_EQ(time_from("--budget", "90s"), milliseconds{90000});
  EXPECT_EQ(time_from("--budget", "1.5m"), milliseconds{90000});
  EXPECT_EQ(time_from("--budget", "2h"), milliseconds{7200000});
  EXPECT_EQ(time_from("--budget", "500ms"), milliseconds{500});
}

TEST(TimeFrom, RefusesAnythingElse) {
  for (const char* text : {"", "s", "-1s", "0", "1d", "1 s", "nan", "inf", "1e99h", "1s1"}) {
    EXPECT_THROW(time_from("--soak", text), InputError) << text;
  }
}

TEST(ShardFrom, ReadsIndexAndCount) {
  const matrix::Shard shard = shard_from("3/7");
  EXPECT_EQ(shard.index, 3U);
  EXPECT_EQ(shard.count, 7U);
}

TEST(RunLimits, StopAtTheBudgetAndSayWhy) {
  Selection selection;
  selection.budget = milliseconds{1000};
  RunLimits limits(selection);
  const auto begin = RunLimits::Clock::now();
  EXPECT_EQ(limits.reason_to_stop(begin + milliseconds{5000}), "") << "the run has not begun";
  limits.begin(begin);
  EXPECT_EQ(limits.reason_to_stop(begin + milliseconds{999}), "");
  EXPECT_EQ(limits.reason_to_stop(begin + milliseconds{1000}), "budget");
}

TEST(RunLimits, StopAtTheFirstFailureOnlyWhereAsked) {
  CellResult failure;
  failure.verdict = Verdict::fail_overwrite;
  Selection selection;
  RunLimits patient(selection);
  selection.fail_fast = true;
  RunLimits hasty(selection);
  CellResult pass;
  hasty.note(pass);
  EXPECT_EQ(hasty.reason_to_stop(RunLimits::Clock::now()), "");
  patient.note(failure);
  hasty.note(failure);
  EXPECT_EQ(patient.reason_to_stop(RunLimits::Clock::now()), "");
  EXPECT_EQ(hasty.reason_to_stop(RunLimits::Clock::now()), "fail-fast");
}

/// One refused cell, and two that run.
class SmallSource final : public CellSource {
 public:
  const reports::PlannedCounts& counts() const override { return counts_; }
  std::optional<SourceItem> next() override {
    if (next_ == 3) return std::nullopt;
    if (next_++ == 0) return CellResult{.id = "refused", .verdict = Verdict::rejected_constraint};
    PlannedCell planned;
    planned.name.id = "cell" + std::to_string(next_ - 1);
    return planned;
  }

 private:
  reports::PlannedCounts counts_{3, 2, 1, 0};
  int next_ = 0;
};

std::unique_ptr<CellSource> small_rounds(const Selection& selection) {
  return rounds_source(selection, 9, [](std::uint64_t) { return std::make_unique<SmallSource>(); });
}

/// `cell1@2` for each cell with its round, `refused` for each result.
std::vector<std::string> taken(CellSource& source, std::size_t most) {
  std::vector<std::string> list;
  while (list.size() < most) {
    const auto item = source.next();
    if (!item) break;
    if (const auto* planned = std::get_if<PlannedCell>(&*item)) {
      list.push_back(planned->name.id + "@" + std::to_string(planned->round));
    } else {
      list.push_back(std::get<CellResult>(*item).id);
    }
  }
  return list;
}

TEST(RoundsSource, IsTheSourceItselfWithoutRounds) {
  const auto source = small_rounds({});
  EXPECT_THAT(taken(*source, 100), ElementsAre("refused", "cell1@0", "cell2@0"));
}

TEST(RoundsSource, RepeatsTheCellsThatRun) {
  Selection selection;
  selection.repeat = 2;
  const auto source = small_rounds(selection);
  EXPECT_EQ(source->counts().total, 5U);
  EXPECT_EQ(source->counts().run, 4U);
  EXPECT_EQ(source->counts().refused, 1U);
  EXPECT_THAT(taken(*source, 100),
              ElementsAre("refused", "cell1@1", "cell2@1", "cell1@2", "cell2@2"));
}

TEST(RoundsSource, SoaksUntilItIsStoppedAndCountsWhatItHandedOut) {
  Selection selection;
  selection.soak = milliseconds{1000};
  const auto source = small_rounds(selection);
  EXPECT_EQ(taken(*source, 10).size(), 10U);
  source->stop();
  EXPECT_THAT(taken(*source, 100), IsEmpty());
  EXPECT_EQ(source->counts().run, 9U);
  EXPECT_EQ(source->counts().total, 10U);
}

TEST(RoundsSource, FinishesTheFirstRoundOfASoakThatIsStopped) {
  Selection selection;
  selection.soak = milliseconds{1000};
  const auto source = small_rounds(selection);
  EXPECT_EQ(taken(*source, 1).size(), 1U);
  source->stop();
  EXPECT_THAT(taken(*source, 100), ElementsAre("cell1@1", "cell2@1"));
}

TEST(RoundsSource, GivesEachRoundOfASoakItsOwnSeed) {
  Selection selection;
  selection.soak = milliseconds{1000};
  const auto source = small_rounds(selection);
  std::vector<std::uint64_t> seeds;
  while (seeds.size() < 6) {
    const auto item = source->next();
    ASSERT_TRUE(item.has_value());
    const auto* planned = std::get_if<PlannedCell>(&*item);
    if (planned != nullptr) seeds.push_back(planned->seed.value_or(0));
  }
  EXPECT_EQ(seeds[0], 9U);
  EXPECT_EQ(seeds[0], seeds[1]);
  EXPECT_NE(seeds[1], seeds[2]);
  EXPECT_EQ(seeds[2], seeds[3]);
  EXPECT_NE(seeds[3], seeds[4]);
}

reports::RunSummary summary_with(std::map<std::string, std::uint64_t> skips) {
  reports::RunSummary summary;
  summary.verdicts[Verdict::pass] = 3;
  for (const auto& [reason, cells] : skips) summary.verdicts[Verdict::skip] += cells;
  summary.skipped_by_reason = std::move(skips);
  return summary;
}

TEST(SkipBudget, DoesNotTakeAskedForSkipsAsUnplanned) {
  EXPECT_EQ(exit_code_of(summary_with({{"budget", 4}})), ExitCode::passed);
  EXPECT_EQ(exit_code_of(summary_with({{"fail-fast", 4}})), ExitCode::passed);
  EXPECT_EQ(exit_code_of(summary_with({{"something else", 4}})), ExitCode::unplanned_skips);
}

TEST(SkipBudget, CountsEverySkipButDuplicates) {
  const auto summary = summary_with({{"not built yet: mamba", 2}, {"duplicate of", 40}});
  EXPECT_FALSE(skips_too_many(summary, 2));
  EXPECT_TRUE(skips_too_many(summary, 1));
}

class EarlierReport : public ::testing::Test {
 protected:
  EarlierReport() {
    header_.matrix = "smoke";
    header_.matrix_hash = "aa";
    header_.seed = 3;
  }

  void write(const std::vector<CellResult>& results) {
    Journal journal(directory_.path() / "journal.jsonl", header_);
    for (const CellResult& result : results) journal.append(result);
  }

  static CellResult cell(const std::string& id, Verdict verdict, bool provisional = false) {
    CellResult result;
    result.id = id;
    result.hash = id;
    result.verdict = verdict;
    result.provisional = provisional;
    return result;
  }

  std::string message_of(const RunIdentity& run) {
    try {
      failed_cells(directory_.path(), run);
    } catch (const InputError& error) {
      return error.what();
    }
    return "(accepted)";
  }

  cgconform::testing::TemporaryDirectory directory_;
  JournalHeader header_;
  RunIdentity same_{"smoke", "aa", 3};
};

TEST_F(EarlierReport, GivesTheCellsWhoseLastVerdictFailed) {
  write({cell("passed", Verdict::pass), cell("crashed", Verdict::crash),
         cell("flaky", Verdict::fail_overwrite, true), cell("flaky", Verdict::flaky),
         cell("torn", Verdict::hang, true), cell("lost", Verdict::inconclusive_env)});
  EXPECT_THAT(failed_cells(directory_.path(), same_),
              ElementsAre("crashed", "flaky", "lost", "torn"));
}

TEST_F(EarlierReport, RefusesAForeignOne) {
  write({});
  EXPECT_THAT(message_of({"full", "aa", 3}), HasSubstr("matrix smoke"));
  EXPECT_THAT(message_of({"smoke", "bb", 3}), HasSubstr("has changed since"));
  EXPECT_THAT(message_of({"smoke", "aa", 4}), HasSubstr("add --seed 3"));
  EXPECT_EQ(message_of(same_), "(accepted)");
}

TEST_F(EarlierReport, RefusesAFolderWithoutAReadableJournal) {
  EXPECT_THAT(message_of(same_), HasSubstr("--rerun-failed"));
  std::ofstream(directory_.path() / "journal.jsonl") << "no journal\n";
  EXPECT_THAT(message_of(same_), HasSubstr("name the folder of a report"));
}

}  // namespace
}  // namespace cgconform::harness

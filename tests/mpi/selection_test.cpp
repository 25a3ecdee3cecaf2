#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/program_run.hpp"
#include "tests/temporary_directory.hpp"

namespace cgconform::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct SelectedRun {
  ProgramEnd end;
  std::vector<json> results;  ///< final ones
  json summary;

  std::multiset<std::string> ids(const std::string& verdict) const {
    std::multiset<std::string> found;
    for (const json& result : results) {
      if (result.at("verdict") == verdict) found.insert(result.at("id").get<std::string>());
    }
    return found;
  }
};

/// Runs on two ranks, the report in the folder `name`.
class SelectionRun : public ::testing::Test {
 protected:
  SelectedRun run(std::vector<std::string> arguments, const std::string& name = "report") {
    const auto report = directory_.path() / name;
    arguments.insert(arguments.end(), {"--report", report.string()});
    SelectedRun run;
    run.end = run_program(launch_line(2, arguments), launcher_variables());
    std::ifstream lines(report / "results.jsonl");
    for (std::string line; std::getline(lines, line);) {
      json result = json::parse(line);
      if (!result.at("provisional")) run.results.push_back(std::move(result));
    }
    std::ifstream summary(report / "summary.json");
    if (summary) run.summary = json::parse(summary);
    return run;
  }

  std::string folder(const std::string& name) const { return (directory_.path() / name).string(); }

 private:
  TemporaryDirectory directory_;
};

TEST_F(SelectionRun, RepeatRunsEachCellSoOftenAndTellsThePassRate) {
  const SelectedRun run =
      this->run({"--repeat", "3", "--mock", R"([{"count":2},{"behaviour":"failing_check"}])"});
  EXPECT_EQ(run.end.exit_code, 1) << run.end.out << run.end.err;
  EXPECT_EQ(run.ids("PASS").size(), 6U);
  EXPECT_EQ(run.ids("FAIL_NUMERIC_MISMATCH").size(), 3U);
  EXPECT_THAT(run.end.out, HasSubstr("good in 0 of 3 rounds"));
  EXPECT_EQ(run.summary.at("rounds").size(), 3U);
  for (const json& round : run.summary.at("rounds")) EXPECT_EQ(round.at("cells"), 3);
  EXPECT_EQ(run.summary.at("counts").at("total"), 9);
  EXPECT_EQ(run.summary.at("missing"), 0);
}

TEST_F(SelectionRun, FailFastStartsNoCellAfterAFailure) {
  const SelectedRun run =
      this->run({"--fail-fast", "--mock",
                 R"([{"ranks":2,"behaviour":"failing_check"},{"ranks":2,"count":50}])"});
  EXPECT_EQ(run.end.exit_code, 1) << run.end.out << run.end.err;
  EXPECT_EQ(run.ids("FAIL_NUMERIC_MISMATCH").size(), 1U);
  EXPECT_GE(run.ids("SKIP").size(), 40U);
  EXPECT_EQ(run.results.size(), 51U);
  EXPECT_EQ(run.summary.at("skipped_by_reason").at("fail-fast"), run.ids("SKIP").size());
  EXPECT_EQ(run.summary.at("missing"), 0);
}

TEST_F(SelectionRun, BudgetSkipsWhatItDoesNotReachWithoutFault) {
  const SelectedRun run =
      this->run({"--budget", "300ms", "--mock",
                 R"([{"ranks":2,"behaviour":"slow","milliseconds":200,"count":40}])"});
  EXPECT_EQ(run.end.exit_code, 0) << run.end.out << run.end.err;
  EXPECT_GE(run.ids("PASS").size(), 1U);
  EXPECT_GE(run.ids("SKIP").size(), 20U);
  EXPECT_EQ(run.results.size(), 40U);
  EXPECT_EQ(run.summary.at("skipped_by_reason").at("budget"), run.ids("SKIP").size());
  EXPECT_EQ(run.summary.at("selection"), "best coverage first within 0.3 s");
}

TEST_F(SelectionRun, SoakGoesRoundUponRoundWithSeedsOfTheirOwn) {
  const SelectedRun run =
      this->run({"--soak", "700ms", "--seed", "5", "--mock",
                 R"([{"ranks":2,"behaviour":"slow","milliseconds":20,"count":2}])"});
  EXPECT_EQ(run.end.exit_code, 0) << run.end.out << run.end.err;
  const json& rounds = run.summary.at("rounds");
  ASSERT_GE(rounds.size(), 2U);
  EXPECT_EQ(rounds[0].at("seed"), 5);
  EXPECT_NE(rounds[1].at("seed"), 5);
  EXPECT_THAT(run.end.out, HasSubstr("trend: "));
  EXPECT_EQ(run.summary.at("missing"), 0);
  std::ifstream journal(folder("report") + "/journal.jsonl");
  std::size_t lines = 0;
  for (std::string line; std::getline(journal, line);) ++lines;
  EXPECT_GE(lines, run.ids("PASS").size() + 1);
}

TEST_F(SelectionRun, ShardsTogetherRunWhatTheWholeRuns) {
  const std::vector<std::string> base{"--filter", "model=dense & impl=none & dropout=0"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), base.begin(), base.end());
    return more;
  };
  const SelectedRun whole = this->run(with({}), "whole");
  EXPECT_EQ(whole.end.exit_code, 0) << whole.end.out << whole.end.err;
  std::multiset<std::string> parts;
  for (const char* shard : {"1/2", "2/2"}) {
    const SelectedRun part =
        this->run(with({"--shard", shard, "--shuffle"}), std::string("part") + shard[0]);
    EXPECT_THAT(part.end.out, HasSubstr(std::string("shard ") + shard + ", shuffled by seed 1"));
    for (const json& result : part.results) parts.insert(result.at("id").get<std::string>());
  }
  std::multiset<std::string> all;
  for (const json& result : whole.results) all.insert(result.at("id").get<std::string>());
  EXPECT_EQ(parts, all);
}

TEST_F(SelectionRun, RerunFailedTakesTheFailedCellsOfTheReport) {
  const std::vector<std::string> base{"--filter", "impl=local & scope=layer & pp=1 & dropout=0.1"};
  std::vector<std::string> faulty{"--fault", "F07a"};
  faulty.insert(faulty.end(), base.begin(), base.end());
  const SelectedRun before = this->run(faulty, "before");
  EXPECT_EQ(before.end.exit_code, 1) << before.end.out << before.end.err;
  const SelectedRun again = this->run({"--rerun-failed", folder("before")}, "again");
  EXPECT_EQ(again.end.exit_code, 0) << again.end.out << again.end.err;
  EXPECT_EQ(again.ids("PASS"), before.ids("FAIL_RNG_STATE"));
  EXPECT_EQ(again.results.size(), again.ids("PASS").size());
  const SelectedRun none = this->run({"--rerun-failed", folder("again")}, "none");
  EXPECT_EQ(none.end.exit_code, 2);
  EXPECT_THAT(none.end.err, HasSubstr("no cell failed"));
  const SelectedRun foreign = this->run(
      {"--matrix", "bringup", "--device", "reference", "--rerun-failed", folder("before")},
      "foreign");
  EXPECT_EQ(foreign.end.exit_code, 2);
  EXPECT_THAT(foreign.end.err, HasSubstr("matrix smoke"));
}

TEST_F(SelectionRun, EmptySelectionIsAnErrorUnlessAllowed) {
  const std::vector<std::string> nothing{"--filter", "impl=none & impl=local"};
  EXPECT_EQ(this->run(nothing, "refused").end.exit_code, 2);
  std::vector<std::string> allowed = nothing;
  allowed.emplace_back("--allow-empty");
  const SelectedRun run = this->run(allowed, "allowed");
  EXPECT_EQ(run.end.exit_code, 77) << run.end.out << run.end.err;
  EXPECT_THAT(run.results, IsEmpty());
}

TEST_F(SelectionRun, MaxSkipsBoundsTheSkips) {
  std::ofstream(folder("matrix.json"))
      << R"({"name": "m", "axes": {"pp": [1, 2], "num_layers": [2]}, "limits": {"max_ranks": 1}})";
  for (const auto& [most, code] : std::map<std::string, int>{{"1", 0}, {"0", 4}}) {
    const SelectedRun run = this->run({"--matrix", folder("matrix.json"), "--device", "reference",
                                       "--filter", "pp>0", "--max-skips", most},
                                      "skips" + most);
    EXPECT_EQ(run.end.exit_code, code) << run.end.out << run.end.err;
  }
}

TEST_F(SelectionRun, ScenariosAreRepeatedByTheirOwnLine) {
  const SelectedRun run = this->run({"--cell", "scenarios=run"});
  EXPECT_EQ(run.end.exit_code, 0) << run.end.out << run.end.err;
  EXPECT_EQ(run.ids("PASS"), (std::multiset<std::string>{"scenarios=run"}));
}

}  // namespace
}  // namespace cgconform::testing

#include "harness/list_command.hpp"

#include <cstdio>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/resource.h>
#include <unistd.h>

#include "matrix/error.hpp"

namespace cgconform::harness {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

constexpr std::string_view matrix_text = R"({"name": "m",
  "axes": {"impl": ["none", "local"], "scope": ["layer", "attn", "attn+full_iteration"],
           "pp": [1, 2], "alloc": ["plain", "expandable"], "ncclreg": ["unset", 0]},
  "defaults": {"use_te_rng_tracker": true, "te_rng_tracker": true, "check_for_nan_in_loss": false,
               "check_for_nan_in_grad": false, "check_for_nan_in_loss_and_grad": false}})";

matrix::CellPlan plan(std::string filter = {}) {
  return {matrix::read_matrix(matrix_text, "m.json"),
          {std::move(filter), 0, matrix::TargetDevice::reference}};
}

struct Listed {
  std::vector<std::string> lines;
  std::string summary;
};

std::string read_all(std::FILE* file) {
  std::rewind(file);
  std::string text;
  for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file)) text += static_cast<char>(c);
  return text;
}

Listed list(const matrix::CellPlan& cells, ListFormat format, std::int32_t ranks = 0) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> output(std::tmpfile(), &std::fclose);
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> summary(std::tmpfile(), &std::fclose);
  ListOptions options;
  options.format = format;
  options.matrix_argument = "m.json";
  options.ranks = ranks;
  options.output = output.get();
  options.summary = summary.get();
  list_cells(cells, options);
  Listed listed;
  std::istringstream text(read_all(output.get()));
  for (std::string line; std::getline(text, line);) listed.lines.push_back(line);
  listed.summary = read_all(summary.get());
  return listed;
}

TEST(ListCommand, PrintsIdHashRanksAndStatusOfEachCell) {
  const Listed listed = list(plan(), ListFormat::text);
  ASSERT_EQ(listed.lines.size(), 48U);
  EXPECT_EQ(listed.lines.front(), "impl=none/scope=layer\t9a21e2fddbdfece7\t1\trun(baseline)");
  EXPECT_THAT(listed.lines, testing::Contains(HasSubstr("impl=local/scope=attn/pp=2\t")));
  EXPECT_THAT(listed.lines, testing::Contains(EndsWith("\t2\trefused(full-iter-no-modules)")));
  EXPECT_THAT(listed.lines,
              testing::Contains(EndsWith("\t1\tskipped(duplicate of impl=none/scope=layer)")));
  EXPECT_THAT(listed.summary, StartsWith("total 48 = run "));
}

TEST(ListCommand, PrintsTheSameAsJsonLines) {
  const Listed text = list(plan(), ListFormat::text);
  const Listed json = list(plan(), ListFormat::json_lines);
  ASSERT_EQ(json.lines.size(), text.lines.size());
  std::set<std::uint64_t> indexes;
  for (std::size_t i = 0; i < json.lines.size(); ++i) {
    const nlohmann::json cell = nlohmann::json::parse(json.lines[i]);
    indexes.insert(cell.at("index").get<std::uint64_t>());
    std::string line = cell.at("id").get<std::string>() + "\t" +
                       cell.at("hash").get<std::string>() + "\t" + cell.at("ranks").dump() + "\t" +
                       cell.at("status").get<std::string>();
    if (cell["status"] == "run" && cell["kind"] == "baseline") line += "(baseline)";
    if (cell["status"] == "skipped") line += "(" + cell.at("reason").get<std::string>() + ")";
    if (cell["status"] == "refused") {
      std::string rules;
      for (const auto& rule : cell.at("rules")) {
        rules += (rules.empty() ? "" : ", ") + rule.get<std::string>();
      }
      line += "(" + rules + ")";
    }
    EXPECT_EQ(line, text.lines[i]);
  }
  EXPECT_EQ(indexes.size(), json.lines.size());
}

TEST(ListCommand, TellsInADryRunWhatWouldBeDoneAndTheTotals) {
  const Listed listed = list(plan("impl=local & alloc=plain"), ListFormat::dry_run);
  std::string text;
  for (const std::string& line : listed.lines) text += line + "\n";
  const std::string hash =
      plan().expansion().name(*plan().expansion().find("impl=local/scope=attn/pp=2")).hash;
  EXPECT_THAT(text, HasSubstr("run     impl=local/scope=attn/pp=2\n        graph, 2 ranks, cost "));
  EXPECT_THAT(text, HasSubstr("mpirun -np 2 cgconform --matrix m.json --filter " + hash + "\n"));
  EXPECT_THAT(text, HasSubstr("refuse  impl=local/scope=attn+full_iteration\n        rules: "
                              "full-iter-no-modules\n"));
  EXPECT_THAT(text, HasSubstr("\ntotal 12 = run 4 (0 baseline) + refused 4 + skipped 4\n"));
  EXPECT_THAT(text, HasSubstr("4  refused by full-iter-no-modules\n"));
  EXPECT_THAT(text, HasSubstr("4  skipped, no effect on this device\n"));
  EXPECT_EQ(listed.summary, "");
}

TEST(ListCommand, SkipsCellsThatNeedMoreRanksThanTheRunHas) {
  const Listed listed = list(plan("impl=none/scope=layer/pp=2"), ListFormat::text, 1);
  ASSERT_EQ(listed.lines.size(), 1U);
  EXPECT_THAT(listed.lines.front(), EndsWith("skipped(too few ranks: needs 2, have 1)"));
}

TEST(ListCommand, EndsQuietlyWhenTheReaderIsGone) {
  int ends[2] = {-1, -1};
  ASSERT_EQ(pipe(ends), 0);
  ASSERT_EQ(close(ends[0]), 0);
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> output(fdopen(ends[1], "w"), &std::fclose);
  ListOptions options;
  options.output = output.get();
  options.summary = nullptr;
  EXPECT_NO_THROW(list_cells(plan(), options));
}

TEST(ListCommand, ReportsAnOutputThatCannotBeWritten) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> output(std::fopen("/dev/full", "w"),
                                                               &std::fclose);
  ASSERT_NE(output, nullptr);
  ListOptions options;
  options.output = output.get();
  options.summary = nullptr;
  EXPECT_THROW(list_cells(plan(), options), Error);
}

TEST(ListCommand, ListsFullInFlatMemory) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers keep freed memory";
#endif
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> output(std::fopen("/dev/null", "w"),
                                                               &std::fclose);
  const matrix::CellPlan full(matrix::load_matrix("full"),
                              {"impl=local & model=dense", 0, matrix::TargetDevice::reference});
  ListOptions options;
  options.output = output.get();
  options.summary = nullptr;
  rusage before{};
  rusage after{};
  getrusage(RUSAGE_SELF, &before);
  list_cells(full, options);
  getrusage(RUSAGE_SELF, &after);
  // Over a hundred thousand cells: keeping their ids alone would take more.
  constexpr long allowed_kib = 4L * 1024;
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, allowed_kib);
}

}  // namespace
}  // namespace cgconform::harness

#include "suites/result_json.hpp"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "matrix/error.hpp"

namespace cgconform::suites {
namespace {

CellResult full_result() {
  CheckResult check{.check_id = "NUM-02",
                    .verdict = Verdict::fail_grad_accum,
                    .detail = "main_grad differs",
                    .divergence = Divergence{.step = 2,
                                             .microbatch = 1,
                                             .layer = 3,
                                             .tensor = "main_grad:mlp.fc1",
                                             .first_bad_index = 7,
                                             .expected = 0.1,
                                             .actual = -0.0,
                                             .bad_count = 5,
                                             .element_count = 64,
                                             .max_abs = 1.5,
                                             .max_rel = std::numeric_limits<double>::infinity(),
                                             .max_ulp = 123456789012345}};
  RankReport rank{.rank = 1,
                  .world_rank = 5,
                  .host = "node7",
                  .device = "reference",
                  .checks = {check, CheckResult{.check_id = "LIF-01"}},
                  .abnormal_end = AbnormalEnd{.verdict = Verdict::hang,
                                              .signal = 9,
                                              .exit_code = 137,
                                              .phase = "replay",
                                              .last_operation = "step 1 send",
                                              .stack = {"frame a", "frame b"}},
                  .captures = 4,
                  .replays = 24,
                  .comparisons = 310,
                  .phase_milliseconds = {{"capture", 1.25}, {"replay", 3.5}},
                  .measurements = {{"graph pool bytes", 4096.0}},
                  .cell_digest = "0123456789abcdef"};
  return {.index = 12,
          .id = "impl=local/scope=attn",
          .hash = "89abcdef01234567",
          .verdict = Verdict::fail_grad_accum,
          .rules = {"moe-xor-router"},
          .reason = "one line",
          .check_id = "NUM-02",
          .failing_rank = 5,
          .secondary = {"NUM-03"},
          .reproducer = "mpirun -np 2 cgconform ...",
          .attempt = 1,
          .provisional = true,
          .seconds = 0.25,
          .environment = {{"NCCL_GRAPH_REGISTER", "0"}},
          .ranks = {rank},
          .earlier = {{.attempt = 1,
                       .verdict = Verdict::crash,
                       .check_id = "SUI-04",
                       .failing_rank = 4,
                       .reason = "it died",
                       .seconds = 0.5,
                       .ranks = {rank}}}};
}

TEST(ResultJson, ReadsBackAnEqualRecordThroughText) {
  const CellResult result = full_result();
  const std::string text = to_json(result).dump();
  EXPECT_EQ(cell_result_from_json(nlohmann::json::parse(text)), result);
}

TEST(ResultJson, LeavesOutOptionalPartsThatAreNotSet) {
  const nlohmann::json json = to_json(RankReport{.checks = {CheckResult{}}});
  EXPECT_FALSE(json.contains("abnormal_end"));
  EXPECT_FALSE(json["checks"][0].contains("divergence"));
  EXPECT_EQ(rank_report_from_json(json), RankReport{.checks = {CheckResult{}}});
}

TEST(ResultJson, KeepsNumbersThatAreNotFinite) {
  Divergence divergence;
  divergence.expected = std::numeric_limits<double>::quiet_NaN();
  divergence.actual = -std::numeric_limits<double>::infinity();
  const auto text = to_json(divergence).dump();
  const Divergence read = divergence_from_json(nlohmann::json::parse(text));
  EXPECT_TRUE(std::isnan(read.expected));
  EXPECT_EQ(read.actual, divergence.actual);
}

std::string message_of(const nlohmann::json& json) {
  try {
    cell_result_from_json(json);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(ResultJson, NamesTheFieldThatIsMissingUnknownOrOfTheWrongType) {
  nlohmann::json missing = to_json(full_result());
  missing.erase("secondary");
  EXPECT_EQ(message_of(missing), "cell_result.secondary: the field is missing");

  nlohmann::json unknown = to_json(full_result());
  unknown["ranks"][0]["colour"] = "red";
  EXPECT_EQ(message_of(unknown), "rank_report.colour: unknown field");

  nlohmann::json wrong = to_json(full_result());
  wrong["index"] = "twelve";
  EXPECT_NE(message_of(wrong).find("cell_result.index"), std::string::npos);

  nlohmann::json verdict = to_json(full_result());
  verdict["verdict"] = "FINE";
  EXPECT_EQ(message_of(verdict), "cell_result.verdict: 'FINE' is no verdict");
}

}  // namespace
}  // namespace cgconform::suites

#include "harness/protocol.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <utility>
#include <variant>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "harness/cell_json.hpp"
#include "harness/control_channel.hpp"
#include "harness/system_error.hpp"
#include "matrix/cell_plan.hpp"
#include "suites/selftest_table.hpp"

namespace cgconform::harness {
namespace {

void expect_same(const matrix::Cell& sent, const matrix::Cell& received) {
  EXPECT_EQ(sent.index, received.index);
  EXPECT_EQ(sent.config, received.config);
  EXPECT_EQ(sent.shape, received.shape);
  EXPECT_EQ(sent.model_kind, received.model_kind);
  EXPECT_EQ(sent.platform, received.platform);
}

TEST(CellJson, CarriesEveryCellOfTheBuiltInMatricesThatRuns) {
  for (const char* name : {"smoke", "full"}) {
    const matrix::CellPlan plan(matrix::load_matrix(name), {});
    std::uint64_t seen = 0;
    plan.for_each([&](const matrix::CellPlan::Entry& entry) {
      if (entry.classification.status == matrix::CellStatus::run) {
        expect_same(entry.normalised, cell_from_json(cell_to_json(entry.normalised)));
        ++seen;
      }
      return seen < 2000 && !::testing::Test::HasFailure();
    });
    EXPECT_GT(seen, 0U);
  }
}

TEST(CellJson, CarriesTheCellsOfTheSelfTest) {
  for (const suites::SelftestCell& row : suites::selftest_cells()) {
    expect_same(row.cell, cell_from_json(cell_to_json(row.cell)));
  }
}

TEST(Protocol, GivesBackAnAssignment) {
  Assignment sent;
  sent.id = 12;
  sent.gang = 3;
  sent.new_gang = false;
  sent.fresh = true;
  sent.worker_generation = 9;
  sent.rank = 1;
  sent.world_ranks = {4, 5};
  sent.name = {"impl=local", "00ff"};
  sent.seed = 77;
  sent.faults = {"F01a"};
  sent.mock = "{}";
  sent.mishap = "{}";
  sent.environment = {{"NCCL_GRAPH_REGISTER", "0"}};
  sent.deadline_scale = 0.5;
  const auto received = std::get<Assignment>(decode(encode(sent)));
  EXPECT_EQ(received.id, sent.id);
  EXPECT_EQ(received.gang, sent.gang);
  EXPECT_EQ(received.new_gang, sent.new_gang);
  EXPECT_EQ(received.fresh, sent.fresh);
  EXPECT_EQ(received.worker_generation, sent.worker_generation);
  EXPECT_EQ(received.rank, sent.rank);
  EXPECT_EQ(received.world_ranks, sent.world_ranks);
  EXPECT_EQ(received.name.hash, sent.name.hash);
  EXPECT_EQ(received.seed, sent.seed);
  EXPECT_EQ(received.faults, sent.faults);
  EXPECT_EQ(received.mock, sent.mock);
  EXPECT_EQ(received.mishap, sent.mishap);
  EXPECT_EQ(received.environment, sent.environment);
  EXPECT_EQ(received.deadline_scale, sent.deadline_scale);
}

TEST(Protocol, GivesBackAReportWithItsAbnormalEnd) {
  CellReport sent;
  sent.assignment = 4;
  sent.report.rank = 2;
  sent.report.abnormal_end = suites::AbnormalEnd{.verdict = suites::Verdict::hang,
                                                 .phase = "replay",
                                                 .last_operation = "gemm",
                                                 .stack = {"f", "g"},
                                                 .ended_by_peer = true};
  const auto received = std::get<CellReport>(decode(encode(sent)));
  EXPECT_EQ(received.assignment, sent.assignment);
  EXPECT_EQ(received.report, sent.report);
}

TEST(Protocol, RefusesBytesThatAreNoMessage) {
  EXPECT_THROW(decode({1, 2, 3}), EnvironmentError);
  EXPECT_THROW(decode({}), EnvironmentError);
  const auto unknown = nlohmann::json::to_cbor({{"type", "no_such_message"}});
  EXPECT_THROW(decode(unknown), EnvironmentError);
}

TEST(ControlChannel, PutsMessagesTogetherWhereverTheStreamIsCut) {
  auto [one, other] = socket_pair();
  ControlChannel sender{std::move(one)};
  ControlChannel receiver{std::move(other)};
  const Packet small{1, 2, 3};
  const Packet empty;
  const Packet large(100000, 7);
  ASSERT_TRUE(sender.send(small));
  ASSERT_TRUE(sender.send(empty));
  ASSERT_TRUE(sender.send(large));
  EXPECT_EQ(receiver.receive(), small);
  EXPECT_EQ(receiver.receive(), empty);
  EXPECT_EQ(receiver.receive(), large);
}

TEST(ControlChannel, KeepsWhatCameBeforeTheOtherEndClosed) {
  auto [one, other] = socket_pair();
  ControlChannel receiver{std::move(other)};
  {
    ControlChannel sender{std::move(one)};
    ASSERT_TRUE(sender.send({5}));
  }
  EXPECT_EQ(receiver.receive(), Packet{5});
  EXPECT_EQ(receiver.receive(), std::nullopt);
  EXPECT_FALSE(receiver.send({6}));
}

TEST(ControlChannel, RefusesALengthThatNobodySends) {
  auto [one, other] = socket_pair();
  ControlChannel receiver{std::move(other)};
  const std::array<unsigned char, 4> header{0xff, 0xff, 0xff, 0xff};
  ASSERT_EQ(::write(one.get(), header.data(), header.size()), 4);
  EXPECT_THROW(receiver.receive(), EnvironmentError);
}

}  // namespace
}  // namespace cgconform::harness

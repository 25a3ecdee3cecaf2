#include "workloads/parallel/launch_ledger.hpp"

#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "matrix/error.hpp"
#include "tests/workloads/scripted_gang.hpp"

namespace cgconform::workloads {
namespace {

using Kind = LaunchIntent::Kind;
using ::testing::HasSubstr;

LaunchIntent replay_of(std::vector<LaunchedCommunication> communications) {
  return {.name = "iteration",
          .kind = Kind::replay,
          .replay = 2,
          .communications = std::move(communications)};
}

LaunchedCommunication reduction(const char* communicator, std::uint64_t bytes = 64) {
  return {.communicator = communicator, .op = "all_reduce", .bytes = bytes, .dtype = "fp32"};
}

LaunchedCommunication message(const char* op, int rank, int peer, std::uint64_t bytes = 64) {
  return {.communicator = "pipeline",
          .op = op,
          .rank = rank,
          .peer = peer,
          .bytes = bytes,
          .dtype = "fp32"};
}

TEST(LaunchIntents, TravelAsText) {
  const LaunchIntent intent = replay_of({reduction("a"), message("send", 1, 0)});
  const LaunchIntent read = LaunchIntent::decode(intent.encode());
  EXPECT_EQ(read.name, "iteration");
  EXPECT_EQ(read.kind, Kind::replay);
  EXPECT_EQ(read.replay, 2U);
  ASSERT_EQ(read.communications.size(), 2U);
  EXPECT_EQ(read.communications[1].peer, 0);
  EXPECT_EQ(read.encode(), intent.encode());
  EXPECT_THROW(LaunchIntent::decode("nonsense"), InternalError);
  EXPECT_THROW(LaunchIntent::decode("x\t1\tname"), InternalError);
}

TEST(LaunchIntents, OfRanksThatDoTheSameAgree) {
  const std::vector<LaunchIntent> intents{replay_of({reduction("all"), message("send", 0, 1)}),
                                          replay_of({reduction("all"), message("receive", 1, 0)}),
                                          replay_of({reduction("all"), reduction("other")})};
  EXPECT_FALSE(find_disagreement(intents).has_value());
}

TEST(LaunchIntents, OfAnEagerRankAmongReplaysNameIt) {
  std::vector<LaunchIntent> intents(3, replay_of({reduction("all")}));
  intents[1].kind = Kind::eager;
  const auto found = find_disagreement(intents);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->rank, 1);
  EXPECT_EQ(found->category, ErrorCategory::communicator_mismatch);
  EXPECT_THAT(found->text, HasSubstr("rank 1 is about to run eagerly"));
}

TEST(LaunchIntents, OfTheFirstRankCanBeTheOddOne) {
  std::vector<LaunchIntent> intents(3, replay_of({reduction("all")}));
  intents[0].kind = Kind::capture;
  EXPECT_EQ(find_disagreement(intents)->rank, 0);
}

TEST(LaunchIntents, WithAnotherNumberOfReplaysDisagree) {
  std::vector<LaunchIntent> intents(2, replay_of({reduction("all")}));
  intents[1].replay = 3;
  EXPECT_EQ(find_disagreement(intents)->category, ErrorCategory::communicator_mismatch);
}

TEST(LaunchIntents, WithOtherBytesOrCountsDisagree) {
  for (const std::vector<LaunchedCommunication>& other :
       {std::vector{reduction("all", 32)}, std::vector{reduction("all"), reduction("all")}}) {
    const std::vector<LaunchIntent> intents{replay_of({reduction("all")}), replay_of(other)};
    const auto found = find_disagreement(intents);
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->category, ErrorCategory::communicator_mismatch);
  }
}

TEST(LaunchIntents, WithMessagesThatDoNotMeetDisagree) {
  for (const std::vector<LaunchedCommunication>& other :
       {std::vector{message("receive", 1, 0, 32)}, std::vector{message("send", 1, 0)},
        std::vector{message("receive", 1, 0), message("receive", 1, 0)}}) {
    const std::vector<LaunchIntent> intents{replay_of({message("send", 0, 1)}), replay_of(other)};
    ASSERT_TRUE(find_disagreement(intents).has_value());
    EXPECT_EQ(find_disagreement(intents)->category, ErrorCategory::communicator_mismatch);
  }
}

TEST(LaunchIntents, InAnotherOrderOfCommunicatorsAreCalledSo) {
  const std::vector<LaunchIntent> in_one_graph{replay_of({reduction("a"), reduction("b")}),
                                               replay_of({reduction("b"), reduction("a")})};
  EXPECT_EQ(find_disagreement(in_one_graph)->category, ErrorCategory::communicator_order);
  std::vector<LaunchIntent> two_graphs{replay_of({reduction("a")}), replay_of({reduction("b")})};
  two_graphs[0].name = "graph a";
  two_graphs[1].name = "graph b";
  const auto found = find_disagreement(two_graphs);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->category, ErrorCategory::communicator_order);
  EXPECT_THAT(found->text, HasSubstr("'graph b'"));
  EXPECT_THAT(found->text, HasSubstr("'graph a'"));
}

TEST(LaunchLedgers, HearThatAPeerHasLeftTheLeg) {
  testing::ScriptedGang gang(
      0, [](const std::string&, int) { return std::string("outcome 1 2 3 it failed"); });
  LaunchLedger ledger(gang);
  try {
    ledger.agree({.name = "step 2 training iteration"});
    ADD_FAILURE() << "agreed with a peer that has left";
  } catch (const DeviceError& error) {
    EXPECT_EQ(error.category(), ErrorCategory::communicator_error);
    EXPECT_THAT(error.what(), HasSubstr("rank 1 does not go on to 'step 2 training iteration'"));
    EXPECT_THAT(error.what(), HasSubstr("it failed"));
  }
}

}  // namespace
}  // namespace cgconform::workloads

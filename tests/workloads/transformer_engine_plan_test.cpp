#include "workloads/capture/transformer_engine_plan.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "matrix/error.hpp"

namespace cgconform::workloads {
namespace {

using ::testing::ElementsAre;

struct Schedule {
  std::string name;
  CaptureLayout layout;
  std::int32_t sets;  ///< distinct static input sets, two layers a chunk
};

/// The layouts that Megatron-Core's own helper was run on.
std::vector<Schedule> known_schedules() {
  return {
      {"A", {.pipeline_stages = 4, .rank = 1, .microbatches = 8}, 6},
      {"B", {.pipeline_stages = 2, .chunks = 2, .microbatches = 4, .microbatch_group = 2}, 10},
      {"C", {.pipeline_stages = 2, .chunks = 2, .microbatches = 5, .microbatch_group = 3}, 12},
      {"D", {.pipeline_stages = 4, .rank = 3, .chunks = 2, .microbatches = 8}, 10},
      {"E", {.pipeline_stages = 4, .chunks = 2, .microbatches = 8}, 22},
      {"F", {.pipeline_stages = 4, .microbatches = 2}, 4},
      {"G", {}, 2},
  };
}

CallablePlan plan_of(const CaptureLayout& layout, std::int32_t layers_per_chunk = 2) {
  return {capture_order(layout).order,
          std::vector<std::int32_t>(static_cast<std::size_t>(layout.chunks), layers_per_chunk)};
}

/// Callables of a pass, as places in the plan.
std::vector<std::size_t> callables_of(const CallablePlan& plan, const OrderedPass& pass) {
  std::vector<std::size_t> places;
  places.reserve(static_cast<std::size_t>(plan.layers(pass.chunk)));
  for (std::int32_t layer = 0; layer < plan.layers(pass.chunk); ++layer) {
    places.push_back(plan.index(pass.chunk, pass.microbatch, layer));
  }
  return places;
}

TEST(CallablePlan, HandsStaticInputsOnFirstInFirstOut) {
  const CallablePlan plan = plan_of({.pipeline_stages = 4, .rank = 1, .microbatches = 8});
  EXPECT_THAT(plan.input_sets(), ElementsAre(0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5, 0, 1, 2, 3));
}

TEST(CallablePlan, NeedsAsManyStaticInputSetsAsTheRealHelper) {
  for (const Schedule& schedule : known_schedules()) {
    EXPECT_EQ(plan_of(schedule.layout).input_set_count(), schedule.sets) << schedule.name;
  }
}

TEST(CallablePlan, NeedsASetForEveryLayerInFlightWhereChunksAreEqual) {
  for (std::int32_t stages = 2; stages <= 8; stages *= 2) {
    for (std::int32_t rank = 0; rank < stages; ++rank) {
      for (const std::int32_t chunks : {1, 2, 3}) {
        for (const std::int32_t microbatches : {stages, 2 * stages, 2 * stages + 1}) {
          if (chunks > 1 && microbatches % stages != 0) continue;
          CaptureLayout layout{.pipeline_stages = stages,
                               .rank = rank,
                               .chunks = chunks,
                               .microbatches = microbatches,
                               .layers_per_chunk = 3};
          EXPECT_EQ(plan_of(layout, 3).input_set_count(), capture_order(layout).static_input_sets)
              << stages << " " << rank << " " << chunks << " " << microbatches;
        }
      }
    }
  }
}

TEST(CallablePlan, NeverLendsASetToTwoCallablesInFlight) {
  for (const Schedule& schedule : known_schedules()) {
    const CallablePlan plan = plan_of(schedule.layout);
    std::set<std::int32_t> lent;
    for (const OrderedPass& pass : plan.passes()) {
      for (const std::size_t place : callables_of(plan, pass)) {
        const std::int32_t set = plan.input_sets()[place];
        if (pass.forward) {
          EXPECT_TRUE(lent.insert(set).second) << schedule.name << " set " << set;
        } else {
          EXPECT_EQ(lent.erase(set), 1U) << schedule.name << " set " << set;
        }
      }
    }
    EXPECT_TRUE(lent.empty()) << schedule.name;
  }
}

TEST(CallablePlan, PlacesCallablesByChunkThenMicrobatchThenLayerWithoutGaps) {
  const std::vector<std::int32_t> order{1, 2, 3, 1, 2, 3, -3, -2, -1, -3, -2, -1};
  const CallablePlan plan(order, {2, 0, 3});
  EXPECT_EQ(plan.microbatches(), 2);
  EXPECT_EQ(plan.callables(), 10U);
  std::vector<std::size_t> places;
  for (const std::int32_t chunk : {0, 1, 2}) {
    for (const std::int32_t microbatch : {0, 1}) {
      for (const std::size_t place : callables_of(plan, {chunk, microbatch, true})) {
        places.push_back(place);
      }
    }
  }
  EXPECT_THAT(places, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
  EXPECT_EQ(plan.input_set_count(), 10);
}

TEST(CallablePlan, CountsMicrobatchesOfEveryChunkInTheOrderOfTheirPasses) {
  const std::vector<std::int32_t> order{1, 1, 2, 2, -2, -2, -1, -1};
  const CallablePlan plan(order, {1, 1});
  EXPECT_THAT(plan.passes(), ElementsAre(OrderedPass{0, 0, true}, OrderedPass{0, 1, true},
                                         OrderedPass{1, 0, true}, OrderedPass{1, 1, true},
                                         OrderedPass{1, 0, false}, OrderedPass{1, 1, false},
                                         OrderedPass{0, 0, false}, OrderedPass{0, 1, false}));
}

TEST(CallablePlan, RefusesOrdersThatDoNotPair) {
  EXPECT_THROW(CallablePlan(std::vector<std::int32_t>{-1, 1}, {1}), InternalError);
  EXPECT_THROW(CallablePlan(std::vector<std::int32_t>{1, 1, -1}, {1}), InternalError);
  EXPECT_THROW(CallablePlan(std::vector<std::int32_t>{1, 2, -2, -1}, {1}), InternalError);
  EXPECT_THROW(CallablePlan(std::vector<std::int32_t>{1, -1, 2, -2, 2, -2}, {1, 1}), InternalError);
}

TEST(CallablePlan, ReadsWeightGradientsAsPassesOfTheirOwn) {
  const std::vector<double> order{1, 2, -2, -2.5, -1, -1.5};
  const CallablePlan plan(order, {1, 1});
  EXPECT_THAT(plan.passes(), ElementsAre(OrderedPass{0, 0, true}, OrderedPass{1, 0, true},
                                         OrderedPass{1, 0, false}, OrderedPass{1, 0, false, true},
                                         OrderedPass{0, 0, false}, OrderedPass{0, 0, false, true}));
}

TEST(CallablePlan, HandsAStaticInputOnOnlyAfterTheWeightGradients) {
  EXPECT_EQ(CallablePlan(std::vector<double>{1, -1, -1.5, 1, -1, -1.5}, {1}).input_set_count(), 1);
  EXPECT_EQ(CallablePlan(std::vector<double>{1, -1, 1, -1.5, -1, -1.5}, {1}).input_set_count(), 2);
}

TEST(CallablePlan, RefusesWeightGradientsThatDoNotPairWithBackwards) {
  const auto refused = [](const std::vector<double>& order, std::vector<std::int32_t> layers) {
    EXPECT_THROW(CallablePlan(order, std::move(layers)), InternalError);
  };
  refused({1, -1.5, -1}, {1});
  refused({1, 1, -1, -1, -1.5}, {1});
  refused({1, -1, -1.5, -1.5}, {1});
  refused({1, -1, -1.25}, {1});
  refused({1.5, -1}, {1});
  refused({1, -1, -1.5}, {2});
}

TEST(InnerWarmups, FillUpToTenRunsOfEveryCallableAndAreAtLeastOne) {
  EXPECT_EQ(inner_warmups(0, 4, 1), 10);
  EXPECT_EQ(inner_warmups(0, 4, 4), 3);
  EXPECT_EQ(inner_warmups(0, 8, 8), 2);
  EXPECT_EQ(inner_warmups(1, 4, 1), 6);
  EXPECT_EQ(inner_warmups(2, 4, 4), 1);
  EXPECT_EQ(inner_warmups(3, 4, 1), 1);
  EXPECT_EQ(inner_warmups(0, 16, 16), 1);
}

}  // namespace
}  // namespace cgconform::workloads

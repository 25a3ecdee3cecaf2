#include "workloads/parallel/capture_order.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "matrix/error.hpp"

namespace cgconform::workloads {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

CaptureLayout layout(int stages, int rank, int chunks, int microbatches, int layers) {
  CaptureLayout made;
  made.pipeline_stages = stages;
  made.rank = rank;
  made.chunks = chunks;
  made.microbatches = microbatches;
  made.layers_per_chunk = layers;
  return made;
}

struct Example {
  const char* name;
  CaptureLayout layout;
  int warmup;
  int static_input_sets;
  std::vector<int> order;
};

CaptureLayout grouped(CaptureLayout made, int group) {
  made.microbatch_group = group;
  return made;
}

/// Orders that Megatron-Core's own functions gave.
std::vector<Example> examples() {
  return {
      {"four stages",
       layout(4, 1, 1, 8, 2),
       2,
       6,
       {1, 1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, -1, -1}},
      {"two stages, two chunks",
       layout(2, 0, 2, 4, 2),
       4,
       10,
       {1, 1, 2, 2, 1, -2, 1, -2, 2, -1, 2, -1, -2, -2, -1, -1}},
      {"uneven group", grouped(layout(2, 0, 2, 5, 2), 3), 5, 12, {1,  1,  1,  2,  2,  2,  -2,
                                                                  1,  -2, 1,  -2, 2,  -1, 2,
                                                                  -1, -1, -2, -2, -1, -1}},
      {"last stage, two chunks", layout(4, 3, 2, 8, 2), 4, 10, {1, 1,  1, 1,  2,  -2, 2,  -2,
                                                                2, -2, 2, -2, 1,  -1, 1,  -1,
                                                                1, -1, 1, -1, 2,  -2, 2,  -2,
                                                                2, -2, 2, -2, -1, -1, -1, -1}},
      {"first stage, two chunks", layout(4, 0, 2, 8, 2), 10, 22, {1,  1,  1,  1,  2,  2,  2,  2,
                                                                  1,  1,  1,  -2, 1,  -2, 2,  -2,
                                                                  2,  -2, 2,  -1, 2,  -1, -1, -1,
                                                                  -2, -2, -2, -2, -1, -1, -1, -1}},
      {"all warm-up", layout(4, 0, 1, 2, 2), 2, 4, {1, 1, -1, -1}},
      {"one stage", layout(1, 0, 1, 8, 2), 0, 2, {1, -1}},
  };
}

TEST(CaptureOrder, EqualsMegatronCoresOwnForKnownLayouts) {
  for (const Example& example : examples()) {
    SCOPED_TRACE(example.name);
    const CaptureOrder result = capture_order(example.layout);
    EXPECT_EQ(result.warmup, example.warmup);
    EXPECT_EQ(result.static_input_sets, example.static_input_sets);
    EXPECT_THAT(result.order, ElementsAreArray(example.order));
  }
}

/// Two stages, two chunks of two layers: Megatron-Core's own expansion of the order.
LayerOrder two_layers_a_chunk(bool wgrads, bool overlaps) {
  return {.layers_per_chunk = {2, 2}, .wgrads = std::vector<bool>(4, wgrads), .overlaps = overlaps};
}

TEST(LayerOrder, EqualsMegatronCoresOwnWithExpertParallelOverlap) {
  const std::vector<std::int32_t> order = capture_order(layout(2, 0, 2, 4, 2)).order;
  EXPECT_THAT(layer_order(order, two_layers_a_chunk(false, true)),
              ElementsAreArray({1, 2,  1, 2,  3, 4,  3,  4,  1,  2,  1,  -4, 2,  -3, 3,  -4,
                                4, -3, 3, -2, 4, -1, -2, -1, -4, -3, -4, -3, -2, -1, -2, -1}));
  EXPECT_THAT(
      layer_order(order, two_layers_a_chunk(true, true)),
      ElementsAreArray({1.0,  2.0,  1.0,  2.0,  3.0,  4.0,  3.0,  4.0,  1.0,  2.0,  1.0,  -4.0,
                        -4.5, 2.0,  -3.0, -3.5, 3.0,  -4.0, -4.5, 4.0,  -3.0, -3.5, 3.0,  -2.0,
                        -2.5, 4.0,  -1.0, -1.5, -2.0, -2.5, -1.0, -1.5, -4.0, -4.5, -3.0, -3.5,
                        -4.0, -4.5, -3.0, -3.5, -2.0, -2.5, -1.0, -1.5, -2.0, -2.5, -1.0, -1.5}));
}

TEST(LayerOrder, PutsWeightGradientsBehindTheBackwardOfTheirLayer) {
  LayerOrder written{.layers_per_chunk = {2, 1}, .wgrads = {false, true, true}};
  EXPECT_THAT(layer_order({1, 2, -2, -1}, written),
              ElementsAreArray({1.0, 2.0, 3.0, -3.0, -3.5, -2.0, -2.5, -1.0}));
  written.wgrads.clear();
  EXPECT_THAT(layer_order({1, 2, -2, -1}, written), ElementsAreArray({1, 2, 3, -3, -2, -1}));
}

TEST(LayerOrder, RunsWhatALongerChunkHasLeftAfterTheTurns) {
  EXPECT_THAT(layer_order({1, 2, -2, 1, -1, -1}, {.layers_per_chunk = {3, 1}, .overlaps = true}),
              ElementsAreArray({1, 2, 3, 4, 1, -4, 2, 3, -3, -2, -1, -3, -2, -1}));
}

TEST(CaptureOrder, HasAllMicroBatchesOfOneStageWhereCommunicationOverlaps) {
  CaptureLayout overlapping = layout(1, 0, 1, 2, 1);
  overlapping.overlaps = true;
  EXPECT_THAT(capture_order(overlapping).order, ElementsAreArray({1, -1, 1, -1}));
}

TEST(CaptureOrder, RunsEveryMicroBatchOnceForwardAndThenOnceBackward) {
  for (int stages : {2, 4, 8}) {
    for (int chunks : {1, 2, 3}) {
      for (int microbatches = stages; microbatches <= 3 * stages; microbatches += stages) {
        for (int rank = 0; rank < stages; ++rank) {
          const CaptureOrder result = capture_order(layout(stages, rank, chunks, microbatches, 1));
          std::map<int, int> open;
          int live = 0;
          int most = 0;
          for (int entry : result.order) {
            const int chunk = entry > 0 ? entry : -entry;
            open[chunk] += entry > 0 ? 1 : -1;
            ASSERT_GE(open[chunk], 0) << "a backward before its forward";
            live += entry > 0 ? 1 : -1;
            most = std::max(most, live);
          }
          EXPECT_EQ(live, 0);
          EXPECT_EQ(result.order.size(), 2U * result.table.size());
          EXPECT_EQ(most, result.static_input_sets) << "sets needed at once";
        }
      }
    }
  }
}

std::string refusal(const CaptureLayout& wrong) {
  try {
    capture_order(wrong);
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(CaptureOrder, RefusesInvalidLayoutsNamingTheRule) {
  EXPECT_THAT(refusal(layout(1, 0, 2, 4, 1)), HasSubstr("vp-needs-pp"));
  EXPECT_THAT(refusal(layout(4, 0, 2, 2, 1)), HasSubstr("vp-group-range"));
  EXPECT_THAT(refusal(grouped(layout(4, 0, 2, 8, 1), 3)), HasSubstr("vp-group-range"));
  EXPECT_THAT(refusal(layout(4, 0, 2, 9, 1)), HasSubstr("vp-final-group"));
  EXPECT_THAT(refusal(layout(4, 4, 1, 8, 1)), HasSubstr("nearest valid one is 3"));
  EXPECT_THAT(refusal(layout(4, 0, 1, 0, 1)), HasSubstr("micro-batches"));
}

}  // namespace
}  // namespace cgconform::workloads

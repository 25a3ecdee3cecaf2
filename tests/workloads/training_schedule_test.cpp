#include <map>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "matrix/error.hpp"
#include "workloads/parallel/pipeline_schedule.hpp"

namespace cgconform::workloads {
namespace {

std::string work_of(const PipelineLayout& layout) {
  std::string text;
  for (const PipelineAction& action : one_forward_one_backward(layout)) {
    if (action.work == PipelineWork::transfer) continue;
    text += action.work == PipelineWork::forward ? 'F' : 'B';
    text += std::to_string(action.microbatch);
  }
  return text;
}

/// What crosses the link between two stages, in order, as the given side sees it: `a` an activation
/// and `g` a gradient, with the micro-batch.
std::vector<std::string> link_traffic(const PipelineLayout& layout, bool with_next) {
  std::vector<std::string> traffic;
  const auto add = [&](char what, std::int32_t microbatch) {
    traffic.push_back(what + std::to_string(microbatch));
  };
  for (const PipelineAction& action : one_forward_one_backward(layout)) {
    switch (action.transfer) {
      case PipelineTransfer::none:
        break;
      case PipelineTransfer::receive_input:
        if (!with_next) add('a', action.microbatch);
        break;
      case PipelineTransfer::send_output:
        if (with_next) add('a', action.microbatch);
        break;
      case PipelineTransfer::send_output_receive_grad:
        if (with_next) {
          add('a', action.microbatch);
          add('g', action.received_microbatch);
        }
        break;
      case PipelineTransfer::receive_grad:
        if (with_next) add('g', action.microbatch);
        break;
      case PipelineTransfer::send_grad:
        if (!with_next) add('g', action.microbatch);
        break;
      case PipelineTransfer::send_grad_receive_input:
        // Combined on both sides: which half is named first is a matter of notation.
        if (!with_next) {
          add('a', action.received_microbatch);
          add('g', action.microbatch);
        }
        break;
    }
  }
  return traffic;
}

TEST(PipelineSchedule, AlternatesAfterTheWarmupOfTheStage) {
  EXPECT_EQ(work_of({1, 0, 3}), "F0B0F1B1F2B2");
  EXPECT_EQ(work_of({2, 0, 3}), "F0F1B0F2B1B2");
  EXPECT_EQ(work_of({2, 1, 3}), "F0B0F1B1F2B2");
  EXPECT_EQ(work_of({4, 1, 8}), "F0F1F2B0F3B1F4B2F5B3F6B4F7B5B6B7");
  EXPECT_EQ(work_of({4, 0, 2}), "F0F1B0B1");
}

TEST(PipelineSchedule, RunsEveryMicrobatchOnceEachWayAndForwardFirst) {
  for (std::int32_t stages = 1; stages <= 8; ++stages) {
    for (std::int32_t microbatches = 1; microbatches <= 9; ++microbatches) {
      for (std::int32_t stage = 0; stage < stages; ++stage) {
        std::set<std::int32_t> forward;
        std::set<std::int32_t> backward;
        for (const PipelineAction& action :
             one_forward_one_backward({stages, stage, microbatches})) {
          if (action.work == PipelineWork::forward) {
            EXPECT_TRUE(forward.insert(action.microbatch).second);
          } else if (action.work == PipelineWork::backward) {
            EXPECT_TRUE(forward.contains(action.microbatch));
            EXPECT_TRUE(backward.insert(action.microbatch).second);
          }
        }
        EXPECT_EQ(forward.size(), static_cast<std::size_t>(microbatches));
        EXPECT_EQ(backward.size(), static_cast<std::size_t>(microbatches));
      }
    }
  }
}

TEST(PipelineSchedule, NeighboursSeeTheSameTrafficOnTheirLink) {
  for (std::int32_t stages = 2; stages <= 8; ++stages) {
    for (std::int32_t microbatches = 1; microbatches <= 9; ++microbatches) {
      for (std::int32_t stage = 0; stage + 1 < stages; ++stage) {
        EXPECT_EQ(link_traffic({stages, stage, microbatches}, true),
                  link_traffic({stages, stage + 1, microbatches}, false))
            << stages << " stages, stage " << stage << ", " << microbatches << " micro-batches";
      }
    }
  }
}

TEST(PipelineSchedule, ValidationRunsForwardsOnly) {
  std::size_t forwards = 0;
  for (const PipelineAction& action : forward_only({2, 0, 3})) {
    EXPECT_NE(action.work, PipelineWork::backward);
    if (action.work == PipelineWork::forward) ++forwards;
  }
  EXPECT_EQ(forwards, 3U);
}

TEST(PipelineSchedule, RefusesAStageOutsideThePipeline) {
  EXPECT_THROW(one_forward_one_backward({2, 2, 1}), InternalError);
  EXPECT_THROW(one_forward_one_backward({2, 0, 0}), InternalError);
}

}  // namespace
}  // namespace cgconform::workloads

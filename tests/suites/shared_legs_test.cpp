#include "suites/shared_legs.hpp"

#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "workloads/device/memory_store.hpp"
#include "workloads/training/eager_problem.hpp"
#include "workloads/training/leg.hpp"

namespace cgconform::suites {
namespace {

using workloads::LegRecord;
using workloads::LegRequest;

constexpr std::int64_t plenty = std::int64_t{64} << 20;

matrix::Cell small_cell() {
  matrix::Cell cell;
  cell.config.num_layers = 2;
  cell.config.hidden_size = 8;
  cell.config.num_attention_heads = 2;
  cell.config.seq_length = 4;
  cell.config.cuda_graph_warmup_steps = 1;
  cell.shape.ffn_hidden_size = 8;
  cell.shape.vocab_size = 8;
  return cell;
}

matrix::Cell graphed(matrix::CudaGraphScope scope = {}) {
  matrix::Cell cell = small_cell();
  cell.config.cuda_graph_impl = matrix::CudaGraphImpl::local;
  cell.config.cuda_graph_scope = scope;
  return cell;
}

class SharedLegsTest : public testing::Test {
 protected:
  /// Takes a leg of the cell; counts those that were run.
  SourcedLeg take(const std::string& id, const matrix::Cell& cell,
                  const LegRequest& request = eager_leg(), std::uint64_t seed = 1,
                  const std::string& environment = {}) {
    return shared_.take({.cell = id, .seed = seed, .environment = environment}, cell, request, [&] {
      ++runs_;
      return workloads::run_leg(cell, request, {.device = *device_, .seed = seed});
    });
  }

  std::unique_ptr<workloads::Device> device_ = workloads::create_reference_device({});
  SharedLegs shared_{*device_, plenty};
  int runs_ = 0;
};

TEST_F(SharedLegsTest, CellsThatDifferInTheirGraphsAloneShareTheEagerLeg) {
  const SourcedLeg first = take("layers", graphed());
  const SourcedLeg second = take("iteration", graphed({matrix::CudaGraphModule::full_iteration}));
  EXPECT_EQ(runs_, 1);
  EXPECT_EQ(first.from, "");
  EXPECT_EQ(second.from, "layers");
  EXPECT_EQ(second.record, first.record);
}

TEST_F(SharedLegsTest, ASharedLegIsWhatTheCellWouldHaveRun) {
  take("layers", graphed());
  const matrix::Cell other = graphed({matrix::CudaGraphModule::full_iteration});
  const SourcedLeg shared = take("iteration", other);
  ASSERT_EQ(shared.from, "layers");
  const auto comparator = create_device_comparator(*device_);
  ControlledComparator controlled(*device_, *comparator);
  LegSet legs(other, controlled);
  legs.add(eager_leg(), {.leg = shared, .ran = true});
  legs.add(eager_repeat_leg(),
           {.leg = workloads::run_leg(other, eager_leg(), {.device = *device_, .seed = 1}),
            .ran = true});
  const LegDifference& difference = legs.difference(eager_leg(), eager_repeat_leg());
  EXPECT_EQ(difference.first(), nullptr);
  EXPECT_GT(controlled.comparisons(), 0U);
}

TEST_F(SharedLegsTest, WhatTheLegDependsOnIsNotShared) {
  take("a", graphed());
  matrix::Cell other_type = graphed();
  other_type.config.params_dtype = matrix::ParamsDtype::fp64;
  EXPECT_EQ(take("b", other_type).from, "");
  matrix::Cell more_steps = graphed();
  more_steps.shape.steps = 6;
  EXPECT_EQ(take("c", more_steps).from, "");
  EXPECT_EQ(take("d", graphed(), eager_leg(), 2).from, "");
  EXPECT_EQ(take("e", graphed(), eager_leg(), 1, "NCCL_GRAPH_REGISTER=1").from, "");
  EXPECT_EQ(take("f", graphed(), instrumented_eager_leg()).from, "");
  EXPECT_EQ(runs_, 6);
}

TEST_F(SharedLegsTest, RepeatsAndGraphLegsAreAlwaysRun) {
  for (const LegRequest& request : {graph_leg(), eager_repeat_leg(), timed_graph_leg()}) {
    EXPECT_EQ(take("a", graphed(), request).from, "") << leg_name(request);
    EXPECT_EQ(take("b", graphed(), request).from, "") << leg_name(request);
  }
  EXPECT_EQ(runs_, 6);
  EXPECT_EQ(shared_.size(), 0U);
}

TEST_F(SharedLegsTest, ACellThatAsksAgainGetsARunOfItsOwn) {
  const SourcedLeg first = take("a", graphed());
  const SourcedLeg again = take("a", graphed());
  EXPECT_EQ(again.from, "");
  EXPECT_NE(again.record, first.record);
  EXPECT_EQ(runs_, 2);
}

TEST_F(SharedLegsTest, AKeptLegThatWasWrittenToIsRunAgain) {
  const SourcedLeg first = take("a", graphed());
  const workloads::TensorView& view = first.record->observations.back().snapshot.view();
  const auto stream = device_->create_stream("stray write");
  stream->fill(view, 0x5A, "stray write");
  stream->synchronize();
  const SourcedLeg second = take("b", graphed());
  EXPECT_EQ(second.from, "");
  EXPECT_EQ(runs_, 2);
  EXPECT_EQ(take("c", graphed()).from, "b");
}

TEST_F(SharedLegsTest, ALegThatFailedIsNotKept) {
  const auto failing = [] {
    LegRecord record;
    record.error = "out of memory";
    return record;
  };
  shared_.take({.cell = "a", .seed = 1}, graphed(), eager_leg(), failing);
  EXPECT_EQ(shared_.size(), 0U);
  EXPECT_EQ(take("b", graphed()).from, "");
}

TEST_F(SharedLegsTest, TheOneNotUsedForLongestGoesFirst) {
  take("a", graphed());
  const std::int64_t bytes = shared_.kept_bytes();
  ASSERT_GT(bytes, 0);
  SharedLegs two(*device_, 2 * bytes + bytes / 2);
  const auto take_of = [&](const std::string& id, std::uint64_t seed) {
    return two
        .take({.cell = id, .seed = seed}, graphed(), eager_leg(),
              [&] {
                return workloads::run_leg(graphed(), eager_leg(),
                                          {.device = *device_, .seed = seed});
              })
        .from;
  };
  take_of("a", 1);
  take_of("b", 2);
  EXPECT_EQ(take_of("c", 1), "a");
  take_of("d", 3);  // pushes out the leg of seed 2
  EXPECT_EQ(two.size(), 2U);
  EXPECT_LE(two.kept_bytes(), 2 * bytes + bytes / 2);
  EXPECT_EQ(take_of("e", 1), "a");
  EXPECT_EQ(take_of("f", 2), "");
}

TEST_F(SharedLegsTest, RanksOfAGangTakeAKeptLegTogetherOrNotAtAll) {
  const auto store = std::make_shared<workloads::MemoryStore>();
  std::vector<std::string> from(2, "none");
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      const auto device = workloads::create_reference_device({});
      const auto gang =
          device->create_communicator({.name = "gang", .rank = rank, .size = 2, .store = store});
      SharedLegs shared(*device, plenty);
      const auto run = [&] {
        return workloads::run_leg(graphed(), eager_leg(), {.device = *device, .seed = 1});
      };
      const LegOwner first{.cell = "a", .seed = 1, .communicator = gang.get()};
      // Only one of the ranks has the leg.
      if (rank == 0) {
        LegOwner alone = first;
        alone.communicator = nullptr;
        shared.take(alone, graphed(), eager_leg(), run);
      }
      LegOwner second = first;
      second.cell = "b";
      from[static_cast<std::size_t>(rank)] = shared.take(second, graphed(), eager_leg(), run).from;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(from, (std::vector<std::string>{"", ""}));
}

TEST(EagerProblem, LeavesOutWhatOnlyGraphsDependOn) {
  matrix::Cell cell = graphed({matrix::CudaGraphModule::attn});
  cell.config.cuda_graph_warmup_steps = 2;
  cell.config.optimizer_cuda_graph = true;
  cell.shape.graphed_layers = matrix::GraphedLayers::odd;
  cell.platform.graph_pool = matrix::GraphPool::separate;
  cell.shape.steps = 6;
  matrix::Cell plain = small_cell();
  plain.shape.steps = 6;
  plain.config.cuda_graph_warmup_steps = 3;
  EXPECT_TRUE(
      workloads::is_same_problem(workloads::eager_problem(cell), workloads::eager_problem(plain)));
  plain.config.attention_dropout = 0.0F;
  EXPECT_FALSE(
      workloads::is_same_problem(workloads::eager_problem(cell), workloads::eager_problem(plain)));
}

}  // namespace
}  // namespace cgconform::suites

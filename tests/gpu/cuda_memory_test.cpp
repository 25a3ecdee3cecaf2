#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "suites/checks/segment_scenarios.hpp"
#include "tests/workloads/training_legs.hpp"
#include "workloads/allocator/caching_allocator.hpp"
#include "workloads/device/cuda/cuda_device.hpp"
#include "workloads/device/guarded_device.hpp"
#include "workloads/faults/fault_switches.hpp"
#include "workloads/ops/elementwise.hpp"
#include "workloads/ops/fill.hpp"

namespace cgconform::workloads {
namespace {

class CudaMemory : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "this machine has no NVIDIA device";
    GTEST_FLAG_SET(death_test_style, "threadsafe");
  }

  static std::unique_ptr<Device> device() { return create_cuda_device({}); }
};

/// Captures, replays and destroys a chain of additions with memory of a pool of its own.
void run_cycle(Device& device, Stream& stream) {
  CachingAllocator allocator(device.segment_source());
  const PoolId pool = allocator.create_pool("cycle");
  const Buffer sum(allocator, stream, pool, DType::fp32, Shape{4096}, "sum");
  const Buffer addend(allocator, stream, pool, DType::fp32, Shape{4096}, "addend");
  fill_uniform(stream, addend.view(), {.seed = 5}, "addend");
  stream.fill(sum.view(), 0, "sum");
  stream.begin_capture(CaptureMode::thread_local_mode);
  constexpr int additions = 40;
  for (int i = 0; i < additions; ++i) accumulate(stream, sum.view(), addend.view(), "sum");
  const auto graph = stream.end_capture();
  const auto exec = graph->instantiate();
  exec->launch(stream);
  exec->launch(stream);
  stream.synchronize();
}

TEST_F(CudaMemory, AThousandCyclesOfAGraphLeaveNoMoreThanTheFirst) {
  const auto cuda = device();
  const auto stream = cuda->create_stream("cycles");
  run_cycle(*cuda, *stream);
  const ResourceUse first = cuda->resource_use();
  const std::int64_t first_bytes = cuda->used_bytes();
  constexpr int cycles = 1000;
  for (int cycle = 1; cycle < cycles; ++cycle) run_cycle(*cuda, *stream);
  const ResourceUse last = cuda->resource_use();
  const std::int64_t last_bytes = cuda->used_bytes();
  RecordProperty("first_bytes", std::to_string(first_bytes));
  RecordProperty("last_bytes", std::to_string(last_bytes));
  EXPECT_LE(last_bytes, first_bytes);
  EXPECT_LE(last.segment_bytes, first.segment_bytes);
  EXPECT_LE(last.graph_bytes, first.graph_bytes);
}

TEST_F(CudaMemory, AThousandCyclesOfATrainingStepLeaveNoMoreThanTheFirst) {
  const auto cuda = device();
  matrix::Cell cell = testing::small_cell(matrix::CudaGraphImpl::local);
  cell.config.cuda_graph_scope = {matrix::CudaGraphModule::full_iteration};
  const LegRecord record =
      run_leg(cell, {.cycles = 1000, .kind = LegKind::graph}, {.device = *cuda, .seed = 11});
  ASSERT_EQ(record.error, "");
  ASSERT_EQ(record.cycles.size(), 1000U);
  const MemorySample& first = record.cycles.front().after;
  const MemorySample& last = record.cycles.back().after;
  RecordProperty("first_bytes", std::to_string(first.used_bytes));
  RecordProperty("last_bytes", std::to_string(last.used_bytes));
  EXPECT_LE(last.used_bytes, first.used_bytes);
  EXPECT_EQ(last.device.segment_bytes, first.device.segment_bytes);
}

TEST_F(CudaMemory, EveryKindOfSegmentsGivesEqualProducts) {
  const auto cuda = device();
  suites::ScenarioContext context;
  context.device = cuda.get();
  context.seed = 7;
  const suites::CheckResult result = suites::checks::judge_segment_kinds(context);
  EXPECT_EQ(result.verdict, suites::Verdict::pass) << result.detail;
  RecordProperty("detail", result.detail);
}

TEST_F(CudaMemory, ACellTrainsAlikeBetweenGuardPagesAndOnExpandableSegments) {
  matrix::Cell cell = testing::small_cell(matrix::CudaGraphImpl::local);
  const auto plain = device();
  const LegRecord expected =
      run_leg(cell, {.kind = LegKind::graph}, {.device = *plain, .seed = 11});
  const testing::ObservedBytes wanted = testing::bytes_of(expected, *plain);
  for (const BlockPlacement placement : {BlockPlacement::at_end, BlockPlacement::at_start}) {
    const auto guarded = with_guard_pages(device(), placement);
    const LegRecord record =
        run_leg(cell, {.kind = LegKind::graph}, {.device = *guarded, .seed = 11});
    EXPECT_EQ(record.error, "");
    EXPECT_EQ(testing::differences(wanted, testing::bytes_of(record, *guarded), false),
              std::vector<std::string>{});
  }
  cell.platform.expandable_segments = true;
  const LegRecord record = run_leg(cell, {.kind = LegKind::graph}, {.device = *plain, .seed = 11});
  EXPECT_EQ(testing::differences(wanted, testing::bytes_of(record, *plain), false),
            std::vector<std::string>{});
}

/// Ends the process with 42 where the leg ends by an illegal address.
[[noreturn]] void run_overrun(BlockPlacement placement) {
  const auto guarded = with_guard_pages(create_cuda_device({}), placement);
  FaultSwitches faults;
  faults.turn_on(Fault::f36_written_past_the_end);
  const LegRecord record =
      run_leg(testing::small_cell(matrix::CudaGraphImpl::local), {.kind = LegKind::graph},
              {.device = *guarded, .seed = 11, .faults = faults});
  std::_Exit(record.error_category == ErrorCategory::illegal_address ? 42 : 1);
}

TEST_F(CudaMemory, AWritePastTheEndOfABlockMeetsTheGuardPage) {
  EXPECT_EXIT(run_overrun(BlockPlacement::at_end), ::testing::ExitedWithCode(42), "");
}

TEST_F(CudaMemory, AWritePastTheEndOfABlockIsSeenByTheCanaries) {
  const auto cuda = device();
  FaultSwitches faults;
  faults.turn_on(Fault::f36_written_past_the_end);
  const LegRecord record = run_leg(testing::small_cell(matrix::CudaGraphImpl::local),
                                   {.kind = LegKind::graph, .instrumented = true},
                                   {.device = *cuda, .seed = 11, .faults = faults});
  EXPECT_EQ(record.error, "");
  EXPECT_FALSE(record.damaged_guards.empty());
}

}  // namespace
}  // namespace cgconform::workloads

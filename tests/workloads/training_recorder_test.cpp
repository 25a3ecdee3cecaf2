#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "workloads/device/device.hpp"
#include "workloads/training/recorder.hpp"

namespace cgconform::workloads {
namespace {

/// Records one hash as a node of a graph that is captured, or whose capture runs at once.
class RecorderTest : public testing::Test {
 protected:
  void record_one_hash() {
    recorder_.prepare_graph(slots_);
    recorder_.begin_graph(slots_, default_pool);
    recorder_.hash(SlotKind::output, SlotMoment::production, {.tensor = "value"}, value_.view());
    recorder_.end_graph();
  }

  std::unique_ptr<Device> device_ = create_reference_device({});
  std::unique_ptr<Stream> stream_ = device_->create_stream("main");
  CachingAllocator allocator_{device_->segment_source()};
  Buffer value_{allocator_, *stream_, default_pool, DType::fp32, Shape{4}, "value"};
  Recorder recorder_{allocator_, *stream_, true};
  GraphSlots slots_;
};

TEST_F(RecorderTest, SeesAGraphThatRunsWhileItIsCaptured) {
  record_one_hash();
  EXPECT_TRUE(recorder_.has_run(slots_));
}

TEST_F(RecorderTest, SeesThatACaptureRanNothing) {
  stream_->fill(value_.view(), 1, "value");
  recorder_.prepare_graph(slots_);
  stream_->begin_capture(CaptureMode::thread_local_mode);
  recorder_.begin_graph(slots_, default_pool);
  recorder_.hash(SlotKind::output, SlotMoment::production, {.tensor = "value"}, value_.view());
  recorder_.end_graph();
  const auto graph = stream_->end_capture();
  EXPECT_FALSE(recorder_.has_run(slots_));
  graph->instantiate()->launch(*stream_);
  EXPECT_TRUE(recorder_.has_run(slots_));
}

TEST_F(RecorderTest, PairsAUseWithTheProductionBeforeIt) {
  for (const std::uint8_t value : {std::uint8_t{1}, std::uint8_t{2}}) {
    stream_->fill(value_.view(), value, "value");
    for (const SlotMoment moment : {SlotMoment::production, SlotMoment::use}) {
      recorder_.hash(SlotKind::output, moment, {.tensor = "value"}, value_.view());
    }
  }
  const std::vector<SlotRecord> slots = recorder_.take_slot_records();
  ASSERT_EQ(slots.size(), 2U);
  for (const SlotRecord& slot : slots) EXPECT_EQ(slot.hash_at_production, slot.hash_at_use);
  EXPECT_NE(slots[0].hash_at_use, slots[1].hash_at_use);
}

TEST_F(RecorderTest, TakesTheLastOfAGradientThatGrows) {
  for (const std::uint8_t value : {std::uint8_t{1}, std::uint8_t{2}}) {
    stream_->fill(value_.view(), value, "value");
    recorder_.hash(SlotKind::weight_grad, SlotMoment::production, {.tensor = "g"}, value_.view());
  }
  recorder_.hash(SlotKind::weight_grad, SlotMoment::use, {.tensor = "g"}, value_.view());
  const std::vector<SlotRecord> slots = recorder_.take_slot_records();
  ASSERT_EQ(slots.size(), 1U);
  EXPECT_EQ(slots[0].hash_at_production, slots[0].hash_at_use);
}

TEST(TensorNames, OfCopiesAreOneTextAndEqualByWhatTheySay) {
  const TensorName name = "weight:mlp.linear_fc1.weight";
  const TensorLocation there{.tensor = name};
  const TensorName other = std::string("weight:mlp.linear_fc1.weight");
  EXPECT_EQ(&there.tensor.text(), &name.text());
  EXPECT_NE(&other.text(), &name.text());
  EXPECT_EQ(other, name);
  EXPECT_NE(TensorName("weight:mlp.linear_fc2.weight"), name);
  EXPECT_EQ(TensorName(), "");
}

}  // namespace
}  // namespace cgconform::workloads

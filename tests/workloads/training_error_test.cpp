#include <algorithm>
#include <vector>

#include "tests/workloads/training_legs.hpp"

namespace cgconform::workloads {
namespace {

using matrix::CudaGraphImpl;
using testing::small_cell;

constexpr LegRequest eager{};
constexpr LegRequest graph{.kind = LegKind::graph, .replay_seed = 5};

LegRecord run_on(Device& device, const matrix::Cell& cell, const LegRequest& request) {
  return run_leg(cell, request, {.device = device, .seed = 11});
}

/// Remembers the phases a leg enters.
class PhaseLog final : public ProgressSink {
 public:
  void enter_phase(Phase phase) override { phases_.push_back(phase); }
  void start_operation(std::string_view /*label*/) override {}
  bool entered(Phase phase) const {
    return std::find(phases_.begin(), phases_.end(), phase) != phases_.end();
  }
  Phase last() const { return phases_.back(); }

 private:
  std::vector<Phase> phases_;
};

/// Takes all the memory the device has left when a capture begins.
class MemoryThief final : public ProgressSink {
 public:
  explicit MemoryThief(Device& device) : source_(device.segment_source()) {}
  void enter_phase(Phase phase) override {
    if (phase == Phase::capture) take_all();
  }
  void start_operation(std::string_view /*label*/) override {}
  void give_back() {
    for (const Segment& segment : taken_) source_.release(segment);
    taken_.clear();
  }

 private:
  void take_all() {
    for (std::int64_t bytes = 16 << 20; bytes >= 4096; bytes /= 2) {
      try {
        for (;;) taken_.push_back(source_.allocate(bytes));
      } catch (const DeviceError&) {
        // Nothing of this size is left: go on with half of it.
        continue;
      }
    }
  }

  SegmentSource& source_;
  std::vector<Segment> taken_;
};

class FailedLegs : public ::testing::TestWithParam<CudaGraphImpl> {};

TEST_P(FailedLegs, ACaptureThatRunsOutOfMemoryIsNamedAndUnwound) {
  const auto device = create_reference_device({.arena_bytes = 64 << 20});
  MemoryThief thief(*device);
  matrix::Cell large = small_cell(GetParam());
  large.config.num_layers = 4;
  large.config.seq_length = 128;
  large.config.hidden_size = 64;
  large.config.num_microbatches = 1;
  // Only captures allocate once the first step has run.
  large.config.cuda_graph_warmup_steps = 0;
  LegRecord failed = run_leg(large, graph, {.device = *device, .seed = 11, .progress = &thief});
  ASSERT_EQ(failed.error_phase, Phase::capture) << failed.error;
  EXPECT_EQ(failed.error_category, ErrorCategory::memory_allocation) << failed.error;
  EXPECT_EQ(failed.captures.back().end_status, ErrorCategory::memory_allocation);
  EXPECT_EQ(failed.live_bytes_after_teardown, 0);
  failed = {};
  thief.give_back();
  EXPECT_EQ(device->segment_source().bytes_in_use(), 0);

  const matrix::Cell cell = small_cell(GetParam());
  const LegRecord expected = run_on(*device, cell, eager);
  const LegRecord actual = run_on(*device, cell, graph);
  ASSERT_EQ(expected.error, "");
  ASSERT_EQ(actual.error, "");
  EXPECT_EQ(testing::differences(testing::bytes_of(expected, *device),
                                 testing::bytes_of(actual, *device), false),
            std::vector<std::string>{});
}

TEST_P(FailedLegs, ALegGivesItsMemoryBackWithItsRecord) {
  const auto device = create_reference_device({.arena_bytes = 64 << 20});
  for (int i = 0; i < 3; ++i) {
    const LegRecord record = run_on(*device, small_cell(GetParam()), graph);
    EXPECT_EQ(record.error, "");
    EXPECT_GT(device->segment_source().bytes_in_use(), 0);
  }
  EXPECT_EQ(device->segment_source().bytes_in_use(), 0);
}

TEST_P(FailedLegs, EveryPhaseIsEnteredForTheWatchdogAndTimed) {
  PhaseLog log;
  const auto device = create_reference_device({.arena_bytes = 64 << 20});
  const LegRecord record =
      run_leg(small_cell(GetParam()), graph, {.device = *device, .seed = 11, .progress = &log});
  ASSERT_EQ(record.error, "");
  for (const Phase phase : {Phase::setup, Phase::eager, Phase::warmup, Phase::capture,
                            Phase::instantiate, Phase::replay, Phase::teardown}) {
    EXPECT_TRUE(log.entered(phase)) << phase_name(phase);
    EXPECT_TRUE(std::any_of(record.timings.begin(), record.timings.end(),
                            [&](const PhaseTiming& timing) { return timing.phase == phase; }))
        << phase_name(phase);
  }
  EXPECT_EQ(log.last(), Phase::idle);
}

INSTANTIATE_TEST_SUITE_P(Implementations, FailedLegs,
                         ::testing::Values(CudaGraphImpl::local, CudaGraphImpl::full_iteration),
                         [](const auto& row) {
                           return row.param == CudaGraphImpl::local ? "local" : "full_iteration";
                         });

}  // namespace
}  // namespace cgconform::workloads

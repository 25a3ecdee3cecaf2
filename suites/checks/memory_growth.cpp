#include "suites/checks/memory_growth.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>

#include <fmt/format.h>

#include "suites/growth.hpp"
#include "suites/leg_set.hpp"
#include "workloads/allocator/caching_allocator.hpp"
#include "workloads/device/device.hpp"

namespace cgconform::suites::checks {
namespace {

using workloads::Buffer;
using workloads::CachingAllocator;
using workloads::CaptureMode;
using workloads::CycleRecord;
using workloads::DType;
using workloads::MemorySample;
using workloads::PoolId;
using workloads::Shape;
using workloads::Stream;

constexpr std::size_t warmup_cycles = 2;
constexpr std::int64_t elements = 64;

CheckResult judge_samples(const MemorySample& start, std::span<const MemorySample> samples,
                          bool communicates) {
  if (const auto growth = find_growth(start, samples, warmup_cycles, communicates)) {
    return {.verdict = Verdict::fail_leak, .detail = *growth};
  }
  return {.detail = fmt::format("{} cycles leave nothing behind, by {} quantities", samples.size(),
                                memory_quantities().size())};
}

/// Captures, replays and destroys one small graph in a private pool.
class SmallCycle {
 public:
  SmallCycle(workloads::Device& device)
      : device_(device),
        stream_(device.create_stream("cycle")),
        allocator_(device.segment_source()),
        output_(allocator_, *stream_, workloads::default_pool, DType::int32, Shape{elements},
                "cycle output") {}

  void run(std::uint8_t byte) {
    const PoolId pool = allocator_.create_pool("cycle");
    stream_->begin_capture(CaptureMode::thread_local_mode);
    {
      const Buffer temporary(allocator_, *stream_, pool, DType::int32, Shape{elements},
                             "cycle temporary");
      stream_->fill(temporary.view(), byte, "cycle");
      stream_->copy(output_.view(), temporary.view(), "cycle");
    }
    auto graph = stream_->end_capture();
    auto exec = graph->instantiate();
    exec->launch(*stream_);
    exec->launch(*stream_);
    device_.synchronize();
    exec.reset();
    graph.reset();
    allocator_.destroy_pool(pool);
  }

  /// Takes memory that stays.
  void raise() {
    raised_ = Buffer(allocator_, *stream_, workloads::default_pool, DType::int32,
                     Shape{elements * elements}, "raised once");
  }

  bool output_is(std::uint8_t byte) {
    std::array<std::uint8_t, elements * sizeof(std::int32_t)> seen{};
    stream_->download(seen.data(), output_.view());
    return std::all_of(seen.begin(), seen.end(), [&](std::uint8_t one) { return one == byte; });
  }

  MemorySample sample() const {
    const auto pools = allocator_.statistics(workloads::default_pool);
    return {.taken = true,
            .by_driver = device_.properties().kind == "cuda",
            .device = device_.resource_use(),
            .used_bytes = device_.used_bytes(),
            .host = workloads::host_use(),
            .live_blocks = pools.live_blocks,
            .active_bytes = pools.active_bytes,
            .reserved_bytes = pools.reserved_bytes};
  }

 private:
  workloads::Device& device_;
  std::unique_ptr<Stream> stream_;
  CachingAllocator allocator_;
  Buffer output_;
  Buffer raised_;
};

CheckResult run_hundred(workloads::Device& device, bool raises) {
  constexpr std::size_t cycles = 100;
  SmallCycle cycle(device);
  device.synchronize();
  const MemorySample start = cycle.sample();
  std::vector<MemorySample> samples;
  samples.reserve(cycles);
  for (std::size_t i = 0; i < cycles; ++i) {
    const auto byte = static_cast<std::uint8_t>(i + 1);
    cycle.run(byte);
    if (raises && i == 0) cycle.raise();
    samples.push_back(cycle.sample());
    if (!cycle.output_is(byte)) {
      return {.verdict = Verdict::fail_numeric_mismatch,
              .detail = fmt::format("the replays of cycle {} gave a wrong result", i)};
    }
  }
  return judge_samples(start, samples, false);
}

}  // namespace

std::vector<workloads::LegRequest> growth_legs(const matrix::Cell& /*cell*/) {
  return {cycle_leg()};
}

CheckResult judge_cycles(JudgeContext& context) {
  const workloads::LegRecord& record = context.legs.record(cycle_leg());
  std::vector<MemorySample> samples;
  for (const CycleRecord& cycle : record.cycles) {
    if (cycle.captures == 0 || cycle.replays == 0 || !cycle.after.taken) {
      return {.verdict = Verdict::fail_coverage,
              .detail = fmt::format("cycle {} has {} captures and {} replays", samples.size(),
                                    cycle.captures, cycle.replays)};
    }
    samples.push_back(cycle.after);
  }
  if (samples.size() < warmup_cycles + 3) {
    return {.verdict = Verdict::fail_coverage,
            .detail = fmt::format("{} cycles show no slope", samples.size())};
  }
  return judge_samples(record.memory_at_start, samples, context.cell.ranks() > 1);
}

CheckResult judge_hundred_cycles(ScenarioContext& context) {
  return run_hundred(*context.device, false);
}

CheckResult judge_raised_once(ScenarioContext& context) {
  return run_hundred(*context.device, true);
}

}  // namespace cgconform::suites::checks

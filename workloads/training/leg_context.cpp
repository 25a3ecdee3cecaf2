#include "workloads/training/leg_context.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace cgconform::workloads {
namespace {

constexpr std::int64_t guard_band_bytes = 64;

}  // namespace

LegMemory::LegMemory(Device& device_of_leg, bool guard_bands, SegmentKind segments)
    : device(device_of_leg),
      main(device.create_stream("main")),
      loader(device.create_stream("loader")),
      allocator(std::make_unique<CachingAllocator>(segments_of(device, segments),
                                                   guard_bands ? guard_band_bytes : 0)) {}

LegMemory::~LegMemory() = default;

void LegContext::pass(ReturnPoint point) const {
  if (environment.returns_at != point) return;
  clock.enter(Phase::teardown);
  throw EarlyReturnError(early_return_text(point));
}

MemorySample sample_memory(const LegMemory& memory, PoolId observations, bool process) {
  const PoolStatistics pools = memory.allocator->total_statistics(observations);
  return {.taken = true,
          .by_driver = memory.device.properties().kind == "cuda",
          .device = memory.device.resource_use(),
          .used_bytes = process ? memory.device.used_bytes() : 0,
          .host = process ? host_use() : HostUse{},
          .live_blocks = pools.live_blocks,
          .active_bytes = pools.active_bytes,
          .reserved_bytes = pools.reserved_bytes};
}

Stream& LegMemory::side_stream(std::size_t index) {
  while (side_streams.size() <= index) {
    side_streams.push_back(device.create_stream(fmt::format("side {}", side_streams.size())));
  }
  return *side_streams[index];
}

Event& LegMemory::fork_event(std::size_t index) {
  while (fork_events.size() <= index) fork_events.push_back(device.create_event());
  return *fork_events[index];
}

Stream& LegMemory::wgrad_stream() {
  if (!wgrads) wgrads = device.create_stream("weight gradients");
  return *wgrads;
}

StreamScope::StreamScope(LegContext& context, Stream& stream) : context_(context), stream_(stream) {
  const std::unique_ptr<Event> before = context.device().create_event();
  context.memory.main->record(*before);
  stream.wait(*before);
  context.side = &stream;
  context.recorder.use(stream);
}

StreamScope::~StreamScope() {
  context_.side = nullptr;
  context_.recorder.use(*context_.memory.main);
}

void StreamScope::join() {
  const std::unique_ptr<Event> after = context_.device().create_event();
  stream_.record(*after);
  context_.memory.main->wait(*after);
}

void PhaseClock::enter(Phase phase) {
  const bool tidies_up = phase == Phase::setup || phase == Phase::teardown || phase == Phase::idle;
  if (!tidies_up && phase != current_) device_.enter_phase(phase);
  const auto now = std::chrono::steady_clock::now();
  if (current_ != Phase::idle) {
    const double spent = std::chrono::duration<double, std::milli>(now - since_).count();
    auto timing = std::find_if(timings_.begin(), timings_.end(),
                               [&](const PhaseTiming& t) { return t.phase == current_; });
    if (timing == timings_.end()) {
      timings_.push_back({current_, spent});
    } else {
      timing->milliseconds += spent;
    }
    if (ended_ && phase != current_) ended_(current_);
  }
  current_ = phase;
  since_ = now;
  if (progress_ != nullptr) progress_->enter_phase(phase);
}

}  // namespace cgconform::workloads

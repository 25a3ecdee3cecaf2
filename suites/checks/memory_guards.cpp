#include "suites/checks/memory_guards.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "suites/leg_set.hpp"
#include "workloads/allocator/caching_allocator.hpp"
#include "workloads/device/device.hpp"

namespace cgconform::suites::checks {
namespace {

using workloads::Block;
using workloads::Buffer;
using workloads::CachingAllocator;
using workloads::DType;
using workloads::Shape;

constexpr std::int64_t bytes = 256;

std::string describe(const Block& block, std::string_view what) {
  return fmt::format("{} '{}' of {} bytes", what, block.label, block.bytes);
}

/// Replays a captured copy of `copied` bytes from one block to another and returns what was
/// written outside the blocks.
std::vector<Block> overrun_by(workloads::Device& device, std::int64_t copied) {
  const auto stream = device.create_stream("guards");
  CachingAllocator allocator(device.segment_source());
  const auto pool = allocator.create_pool("guards");
  const Buffer source(allocator, *stream, pool, DType::uint8, Shape{2 * bytes}, "source");
  const Buffer target(allocator, *stream, pool, DType::uint8, Shape{bytes}, "target");
  const Buffer behind(allocator, *stream, pool, DType::uint8, Shape{bytes}, "behind");
  allocator.poison_free_blocks(pool, 0xFF, *stream);
  stream->fill(source.view(), 0, "source");
  workloads::TensorView from = source.view();
  workloads::TensorView to = target.view();
  from.shape = Shape{copied};
  to.shape = Shape{copied};
  stream->begin_capture(workloads::CaptureMode::thread_local_mode);
  stream->copy(to, from, "captured copy");
  const auto exec = stream->end_capture()->instantiate();
  constexpr int replays = 3;
  for (int i = 0; i < replays; ++i) exec->launch(*stream);
  device.synchronize();
  std::vector<Block> found = allocator.damaged_guards(*stream);
  const auto more = allocator.written_when_free(*stream);
  found.insert(found.end(), more.begin(), more.end());
  return found;
}

}  // namespace

std::vector<workloads::LegRequest> guard_legs(const matrix::Cell& /*cell*/) {
  return {instrumented_eager_leg(), instrumented_graph_leg()};
}

CheckResult judge_guards(JudgeContext& context) {
  const workloads::LegRecord& record = context.legs.record(instrumented_graph_leg());
  if (!record.damaged_guards.empty()) {
    return {.verdict = Verdict::fail_overwrite,
            .detail = describe(record.damaged_guards.front(), "written past the ends of block")};
  }
  if (!record.written_when_free.empty()) {
    return {.verdict = Verdict::fail_overwrite,
            .detail = describe(record.written_when_free.front(), "written to memory")};
  }
  if (record.guards_inspected == 0 || record.totals.graph_launches == 0) {
    return {.verdict = Verdict::fail_coverage, .detail = "no guard band was looked at"};
  }
  // Free blocks hold a NaN pattern in instrumented legs: what reads one cannot equal eager.
  const LegDifference& difference =
      context.legs.difference(instrumented_eager_leg(), instrumented_graph_leg());
  const auto read =
      std::find_if(difference.outcomes.begin(), difference.outcomes.end(), [](const auto& outcome) {
        return outcome.differs() && std::isnan(outcome.comparison.actual) &&
               !std::isnan(outcome.comparison.expected);
      });
  if (read != difference.outcomes.end()) {
    return {
        .verdict = Verdict::fail_numeric_mismatch,
        .detail = fmt::format("{} holds the pattern of freed memory", location_text(read->where)),
        .divergence = divergence_of(*read)};
  }
  return {.detail = fmt::format("{} guard bands intact after {} replays", record.guards_inspected,
                                record.totals.graph_launches)};
}

CheckResult judge_guard_control(ScenarioContext& context) {
  const auto healthy = overrun_by(*context.device, bytes);
  if (!healthy.empty()) {
    return {.verdict = Verdict::fail_overwrite,
            .detail = describe(healthy.front(), "a copy within its block damages")};
  }
  const auto damaged = overrun_by(*context.device, bytes + 1);
  if (damaged.empty() || damaged.front().label != "target") {
    return {.verdict = Verdict::fail_suite,
            .detail = "a copy that is one byte too long was not seen"};
  }
  return {.detail = "a captured copy that is one byte too long is seen, one that fits is not"};
}

}  // namespace cgconform::suites::checks

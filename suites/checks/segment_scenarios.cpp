#include "suites/checks/segment_scenarios.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "workloads/allocator/caching_allocator.hpp"
#include "workloads/allocator/segment_kind.hpp"
#include "workloads/device/device.hpp"
#include "workloads/ops/elementwise.hpp"
#include "workloads/ops/fill.hpp"
#include "workloads/ops/gemm.hpp"

namespace cgconform::suites::checks {
namespace {

using workloads::Buffer;
using workloads::CachingAllocator;
using workloads::DType;
using workloads::SegmentKind;
using workloads::Shape;

constexpr std::int64_t extent = 48;
constexpr std::array kinds{SegmentKind::plain, SegmentKind::expandable,
                           SegmentKind::stream_ordered};

/// What the products came to, and how their memory lay.
struct Outcome {
  std::vector<float> values;
  std::size_t spanning = 0;  ///< buffers in more than one chunk
  bool chunked = false;
  std::int64_t left = 0;  ///< bytes that the source still counts as handed out
};

/// Replays a captured product that is added up in memory of the kind.
Outcome multiply_on(workloads::Device& device, SegmentKind kind, std::uint64_t seed) {
  workloads::SegmentSource& source = workloads::segments_of(device, kind);
  const std::int64_t before = source.bytes_in_use();
  Outcome outcome;
  outcome.chunked = dynamic_cast<const workloads::ChunkedSource*>(&source) != nullptr;
  outcome.values.resize(static_cast<std::size_t>(extent * extent));
  {
    const auto stream = device.create_stream("segment kinds");
    CachingAllocator allocator(source);
    const auto pool = allocator.create_pool("products");
    std::vector<Buffer> buffers;
    for (const char* name : {"sum", "product", "left", "right"}) {
      buffers.emplace_back(allocator, *stream, pool, DType::fp32, Shape{extent, extent}, name);
      const workloads::TensorView& view = buffers.back().view();
      if (workloads::spans_chunks(source, view.data, view.bytes())) ++outcome.spanning;
      workloads::fill_normal(*stream, view, {.seed = seed, .offset = buffers.size()}, name);
    }
    stream->fill(buffers[0].view(), 0, "sum");
    stream->begin_capture(workloads::CaptureMode::thread_local_mode);
    workloads::gemm(*stream, buffers[1].view(), buffers[2].view(), false, buffers[3].view(), true,
                    "product");
    workloads::accumulate(*stream, buffers[0].view(), buffers[1].view(), "sum");
    const auto exec = stream->end_capture()->instantiate();
    constexpr int replays = 3;
    for (int i = 0; i < replays; ++i) exec->launch(*stream);
    stream->download(outcome.values.data(), buffers[0].view());
  }
  outcome.left = source.bytes_in_use() - before;
  return outcome;
}

}  // namespace

CheckResult judge_segment_kinds(ScenarioContext& context) {
  workloads::Device& device = *context.device;
  const Outcome plain = multiply_on(device, SegmentKind::plain, context.seed);
  if (multiply_on(device, SegmentKind::plain, context.seed + 1).values == plain.values) {
    return {.verdict = Verdict::fail_suite, .detail = "other factors give the same products"};
  }
  std::string seen;
  for (const SegmentKind kind : kinds) {
    const Outcome outcome = multiply_on(device, kind, context.seed);
    const std::string_view name = workloads::segment_kind_name(kind);
    if (outcome.values != plain.values) {
      return {
          .verdict = Verdict::fail_numeric_mismatch,
          .detail = fmt::format("products in {} segments differ from those in plain ones", name)};
    }
    if (outcome.left != 0) {
      return {
          .verdict = Verdict::fail_leak,
          .detail = fmt::format("{} bytes of {} segments were not given back", outcome.left, name)};
    }
    if (outcome.chunked && outcome.spanning == 0) {
      return {.verdict = Verdict::fail_coverage,
              .detail = fmt::format("no buffer in {} segments spans two chunks", name)};
    }
    seen += fmt::format("{}{} ({} buffers span chunks)", seen.empty() ? "" : ", ", name,
                        outcome.spanning);
  }
  return {.detail = fmt::format("captured products are equal bit for bit in segments {}", seen)};
}

}  // namespace cgconform::suites::checks

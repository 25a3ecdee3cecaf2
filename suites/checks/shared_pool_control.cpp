#include "suites/checks/shared_pool_control.hpp"

#include <array>
#include <memory>
#include <vector>

#include <fmt/format.h>

#include "suites/checks/scenario_values.hpp"
#include "workloads/allocator/caching_allocator.hpp"
#include "workloads/device/device.hpp"

namespace cgconform::suites::checks {
namespace {

using workloads::Buffer;
using workloads::CachingAllocator;
using workloads::CaptureMode;
using workloads::DType;
using workloads::GraphExec;
using workloads::PoolId;
using workloads::Shape;
using workloads::Stream;

constexpr std::int64_t elements = 16;
constexpr std::uint64_t replays = 24;
using Values = std::array<std::int32_t, elements>;

/// A graph that copies its input to its output by way of a temporary from the shared pool.
class CopyGraph {
 public:
  CopyGraph(CachingAllocator& allocator, Stream& stream, PoolId pool)
      : input(allocator, stream, pool, DType::int32, Shape{elements}, "control input"),
        output(allocator, stream, pool, DType::int32, Shape{elements}, "control output") {}

  void capture(CachingAllocator& allocator, Stream& stream, PoolId pool) {
    stream.begin_capture(CaptureMode::thread_local_mode);
    {
      const Buffer temporary(allocator, stream, pool, DType::int32, Shape{elements},
                             "control temporary");
      temporary_address = temporary.view().data;
      stream.copy(temporary.view(), input.view(), "to the temporary");
      stream.copy(output.view(), temporary.view(), "from the temporary");
    }
    exec = stream.end_capture()->instantiate();
  }

  Buffer input;
  Buffer output;
  const void* temporary_address = nullptr;
  std::unique_ptr<GraphExec> exec;
};

}  // namespace

CheckResult judge_shared_pool_control(ScenarioContext& context) {
  const auto stream = context.device->create_stream("shared pool control");
  CachingAllocator allocator(context.device->segment_source());
  const PoolId pool = allocator.create_pool("shared");
  constexpr std::size_t sharers = 3;
  std::vector<std::unique_ptr<CopyGraph>> graphs;
  graphs.reserve(sharers);
  for (std::size_t i = 0; i < sharers; ++i) {
    graphs.push_back(std::make_unique<CopyGraph>(allocator, *stream, pool));
  }
  for (const auto& graph : graphs) graph->capture(allocator, *stream, pool);
  if (graphs[0]->temporary_address != graphs[1]->temporary_address) {
    return {.verdict = Verdict::fail_suite, .detail = "the graphs share no memory of the pool"};
  }
  std::uint64_t draw = context.seed * 2 + 1;
  for (std::uint64_t replay = 0; replay < replays; ++replay) {
    draw = draw * 6364136223846793005ULL + 1442695040888963407ULL;
    CopyGraph& graph = *graphs[(draw >> 33U) % graphs.size()];
    const Values given = scenario_values<elements>(static_cast<std::int32_t>(replay));
    stream->upload(graph.input.view(), given.data(), false, "control input");
    graph.exec->launch(*stream);
    Values seen{};
    stream->download(seen.data(), graph.output.view());
    if (seen != given) {
      return {.verdict = Verdict::fail_overwrite,
              .detail = fmt::format("replay {} gave another output than its input", replay)};
    }
  }
  return {.detail = fmt::format("{} shuffled replays of {} graphs in one pool are right", replays,
                                graphs.size())};
}

}  // namespace cgconform::suites::checks

#include "suites/checks/pool_scenarios.hpp"

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "matrix/error.hpp"
#include "suites/checks/scenario_values.hpp"
#include "workloads/allocator/caching_allocator.hpp"
#include "workloads/capture/replay_order.hpp"
#include "workloads/device/device.hpp"

namespace cgconform::suites::checks {
namespace {

using workloads::Buffer;
using workloads::CachingAllocator;
using workloads::CaptureMode;
using workloads::DType;
using workloads::GraphExec;
using workloads::PoolId;
using workloads::ReplayOrder;
using workloads::Shape;
using workloads::Stream;

constexpr std::int64_t elements = 32;
constexpr std::int64_t bytes = elements * 4;
constexpr std::size_t microbatches = 2;
using Values = std::array<std::int32_t, elements>;

/// Two micro-batches whose forward keeps a tensor for its backward. Captured as F0 F1 B1 B0, in one
/// pool: what B1 no longer needs, B0 takes for its own work.
class SharedPoolPipeline {
 public:
  explicit SharedPoolPipeline(workloads::Device& device)
      : stream_(device.create_stream("pool order")),
        allocator_(device.segment_source()),
        pool_(allocator_.create_pool("shared")) {
    for (std::size_t m = 0; m < microbatches; ++m) {
      inputs_.push_back(buffer(workloads::default_pool, "input"));
      outputs_.push_back(buffer(workloads::default_pool, "output"));
    }
    forward(0);
    forward(1);
    backward(1);
    backward(0);
  }

  /// Places in the captured order.
  static constexpr std::array<std::size_t, 4> planned{0, 1, 2, 3};
  static constexpr std::array<std::size_t, 4> backwards_swapped{0, 1, 3, 2};

  ReplayOrder order() const { return ReplayOrder({"F0", "F1", "B1", "B0"}); }

  /// Replays in `order`, checked against the plan where there is one, and returns the first
  /// micro-batch with a wrong result.
  std::optional<std::size_t> replay(std::span<const std::size_t> order, std::int32_t seed,
                                    ReplayOrder* plan) {
    for (std::size_t m = 0; m < microbatches; ++m) {
      const Values given = scenario_values<elements>(seed + static_cast<std::int32_t>(m));
      stream_->upload(inputs_[m].view(), given.data(), false, "input");
      stream_->fill(outputs_[m].view(), 0, "output");
    }
    for (const std::size_t graph : order) {
      if (plan != nullptr) plan->launch(graph);
      execs_[graph]->launch(*stream_);
    }
    for (std::size_t m = 0; m < microbatches; ++m) {
      Values seen{};
      stream_->download(seen.data(), outputs_[m].view());
      if (seen != scenario_values<elements>(seed + static_cast<std::int32_t>(m))) return m;
    }
    return std::nullopt;
  }

  std::uint64_t launches() const {
    std::uint64_t count = 0;
    for (const auto& exec : execs_) count += exec->launches();
    return count;
  }

 private:
  Buffer buffer(PoolId pool, const char* label) {
    return Buffer(allocator_, *stream_, pool, DType::int32, Shape{elements}, label);
  }

  template <typename Body>
  void capture(Body&& body) {
    stream_->begin_capture(CaptureMode::thread_local_mode);
    body();
    execs_.push_back(stream_->end_capture()->instantiate());
  }

  void forward(std::size_t microbatch) {
    capture([&] {
      saved_[microbatch] = buffer(pool_, "saved for backward");
      stream_->copy(saved_[microbatch].view(), inputs_[microbatch].view(), "forward");
    });
  }

  void backward(std::size_t microbatch) {
    capture([&] {
      const Buffer work = buffer(pool_, "backward work");
      stream_->fill(work.view(), 0, "backward work");
      stream_->copy(work.view(), saved_[microbatch].view(), "backward");
      stream_->copy(outputs_[microbatch].view(), work.view(), "backward");
    });
    saved_[microbatch].reset();
  }

  std::unique_ptr<Stream> stream_;
  CachingAllocator allocator_;
  PoolId pool_;
  std::vector<Buffer> inputs_;
  std::vector<Buffer> outputs_;
  std::array<Buffer, microbatches> saved_;
  std::vector<std::unique_ptr<GraphExec>> execs_;
};

}  // namespace

CheckResult judge_replay_order(ScenarioContext& context) {
  SharedPoolPipeline pipeline(*context.device);
  const auto seed = static_cast<std::int32_t>(context.seed % 1000) + 1;
  ReplayOrder order = pipeline.order();
  constexpr int rounds = 3;
  for (int round = 0; round < rounds; ++round) {
    if (const auto wrong = pipeline.replay(SharedPoolPipeline::planned, seed + round, &order)) {
      return {.verdict = Verdict::fail_overwrite,
              .detail = fmt::format("round {} in the planned order: micro-batch {} is wrong", round,
                                    *wrong)};
    }
  }
  const std::uint64_t before = pipeline.launches();
  std::string refusal;
  try {
    pipeline.replay(SharedPoolPipeline::backwards_swapped, seed, &order);
  } catch (const Error& error) {
    refusal = error.what();
  }
  constexpr std::uint64_t in_order = 2;
  if (refusal.empty() || pipeline.launches() != before + in_order) {
    return {.verdict = Verdict::fail_schedule_order,
            .detail = "B0 was launched where B1 was planned, and nothing refused it"};
  }
  const auto corrupted =
      pipeline.replay(SharedPoolPipeline::backwards_swapped, seed + rounds, nullptr);
  if (!corrupted) {
    return {.verdict = Verdict::fail_suite,
            .detail = "the order that is refused does no harm: the graphs share no memory"};
  }
  return {.detail =
              fmt::format("refused: {}; unrefused, micro-batch {} is wrong", refusal, *corrupted)};
}

CheckResult judge_held_outputs(ScenarioContext& context) {
  workloads::Device& device = *context.device;
  const auto stream = device.create_stream("held output");
  CachingAllocator allocator(device.segment_source());
  const PoolId pool = allocator.create_pool("held");
  const std::int64_t before = device.segment_source().bytes_in_use();
  const auto seed = static_cast<std::int32_t>(context.seed % 1000) + 1;
  const Values given = scenario_values<elements>(seed);
  Buffer output;
  {
    const Buffer input(allocator, *stream, workloads::default_pool, DType::int32, Shape{elements},
                       "input");
    stream->upload(input.view(), given.data(), false, "input");
    stream->begin_capture(CaptureMode::thread_local_mode);
    output = Buffer(allocator, *stream, pool, DType::int32, Shape{elements}, "output");
    stream->copy(output.view(), input.view(), "output");
    auto graph = stream->end_capture();
    auto exec = graph->instantiate();
    exec->launch(*stream);
    device.synchronize();
  }
  // What others allocate from the pool now must not lie where the output is held.
  {
    const Buffer other(allocator, *stream, pool, DType::int32, Shape{elements}, "other");
    stream->fill(other.view(), 0xFF, "other");
  }
  Values seen{};
  stream->download(seen.data(), output.view());
  if (seen != given) {
    return {.verdict = Verdict::fail_overwrite,
            .detail = "an output that was held is not readable once its graph is destroyed"};
  }
  try {
    allocator.destroy_pool(pool);
    return {.verdict = Verdict::fail_stale_address,
            .detail = "the pool was given back while an output in it was held"};
  } catch (const InternalError&) {
    // Refused, as it has to be.
    output.reset();
  }
  allocator.destroy_pool(pool);
  allocator.trim(workloads::default_pool);
  const std::int64_t after = device.segment_source().bytes_in_use();
  if (after != before) {
    return {.verdict = Verdict::fail_leak,
            .detail = fmt::format("{} bytes in use before the graph, {} when its output was let go",
                                  before, after)};
  }
  return {.detail = fmt::format("{} bytes readable while held, given back after", bytes)};
}

}  // namespace cgconform::suites::checks

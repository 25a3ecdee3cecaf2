#include "suites/checks/destroy_scenarios.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "workloads/allocator/caching_allocator.hpp"
#include "workloads/device/device.hpp"

namespace cgconform::suites::checks {
namespace {

using workloads::Buffer;
using workloads::CachingAllocator;
using workloads::CaptureMode;
using workloads::Communicator;
using workloads::Device;
using workloads::DType;
using workloads::Graph;
using workloads::GraphExec;
using workloads::PoolId;
using workloads::ReduceOp;
using workloads::ResourceUse;
using workloads::Shape;
using workloads::Stream;

/// Of graphs, executables, objects and segments: the first that is more than before, in words.
std::string what_is_left(const ResourceUse& before, const ResourceUse& after) {
  struct Level {
    const char* name;
    std::int64_t before;
    std::int64_t after;
  };
  const std::array levels{
      Level{"graphs", before.graphs, after.graphs},
      Level{"executables", before.executables, after.executables},
      Level{"user objects", before.user_objects, after.user_objects},
      Level{"streams", before.streams, after.streams},
      Level{"bytes of segments", before.segment_bytes, after.segment_bytes},
      Level{"bytes reserved for graphs", before.graph_bytes, after.graph_bytes}};
  const auto* left = std::find_if(levels.begin(), levels.end(),
                                  [](const Level& level) { return level.after > level.before; });
  if (left == levels.end()) return {};
  return fmt::format("{}: {} before, {} after", left->name, left->before, left->after);
}

/// A graph that copies and, where it is given communicators, reduces over each of them.
struct Scene {
  Scene(Device& device, std::int64_t elements, std::span<Communicator* const> communicators,
        bool through_temporary)
      : stream(device.create_stream("destroy order")),
        allocator(std::make_unique<CachingAllocator>(device.segment_source())),
        pool(allocator->create_pool("destroy order")),
        input(*allocator, *stream, workloads::default_pool, DType::int32, Shape{elements}, "input"),
        output(*allocator, *stream, pool, DType::int32, Shape{elements}, "output") {
    stream->begin_capture(CaptureMode::thread_local_mode);
    if (through_temporary) {
      const Buffer temporary(*allocator, *stream, pool, DType::int32, Shape{elements}, "temporary");
      stream->copy(temporary.view(), input.view(), "to the temporary");
      stream->copy(output.view(), temporary.view(), "from the temporary");
    } else {
      stream->copy(output.view(), input.view(), "copy");
    }
    for (Communicator* communicator : communicators) {
      communicator->all_reduce(output.view(), output.view(), ReduceOp::max, *stream, "reduce");
    }
    graph = stream->end_capture();
    exec = graph->instantiate();
  }

  /// Replays twice, each time with another input; true where both outputs are right.
  bool replays_rightly(std::int32_t seed) {
    const auto count = static_cast<std::size_t>(input.view().elements());
    for (std::int32_t replay = 0; replay < 2; ++replay) {
      const std::vector<std::int32_t> given(count, seed + replay);
      std::vector<std::int32_t> seen(count, 0);
      stream->upload(input.view(), given.data(), false, "input");
      exec->launch(*stream);
      stream->download(seen.data(), output.view());
      if (seen != given) return false;
    }
    return true;
  }

  void release_buffers() {
    input.reset();
    output.reset();
    allocator->destroy_pool(pool);
    allocator->trim(workloads::default_pool);
  }

  std::unique_ptr<Stream> stream;
  std::unique_ptr<CachingAllocator> allocator;
  PoolId pool;
  Buffer input;
  Buffer output;
  std::unique_ptr<Graph> graph;
  std::unique_ptr<GraphExec> exec;
};

enum class Part : std::uint8_t { graph, exec, stream, buffers, communicator };
constexpr std::array all_parts{Part::graph, Part::exec, Part::stream, Part::buffers,
                               Part::communicator};
constexpr std::array<const char*, 5> part_names{"graph", "executable", "stream", "buffers",
                                                "communicator"};
using Order = std::array<Part, 5>;

std::size_t place(const Order& order, Part part) {
  return static_cast<std::size_t>(std::find(order.begin(), order.end(), part) - order.begin());
}

/// The communicator has to outlive what uses it, and the stream the buffers that are freed on it.
bool is_legal(const Order& order) {
  const std::size_t communicator = place(order, Part::communicator);
  return communicator > place(order, Part::graph) && communicator > place(order, Part::exec) &&
         place(order, Part::stream) > place(order, Part::buffers);
}

std::string order_text(const Order& order) {
  std::string text;
  for (const Part part : order) {
    if (!text.empty()) text += ", ";
    text += part_names.at(static_cast<std::size_t>(part));
  }
  return text;
}

/// Keeps what was seen of places that parts had in orders. To end a communicator takes NCCL half a
/// second, so that of the orders those are run in which some part has a new place.
class Places {
 public:
  /// True where a part has a place in the order that it had in none before.
  bool add(const Order& order) {
    bool any = false;
    for (std::size_t at = 0; at < order.size(); ++at) {
      any = seen_.emplace(order[at], at).second || any;
    }
    return any;
  }

 private:
  std::set<std::pair<Part, std::size_t>> seen_;
};

void destroy(Scene& scene, std::unique_ptr<Communicator>& communicator, Part part) {
  switch (part) {
    case Part::graph:
      scene.graph.reset();
      return;
    case Part::exec:
      scene.exec.reset();
      return;
    case Part::stream:
      scene.stream.reset();
      return;
    case Part::buffers:
      scene.release_buffers();
      return;
    case Part::communicator:
      communicator.reset();
      return;
  }
}

/// What is wrong when the parts go in that order; empty where nothing is.
std::string destroy_in(Device& device, const Order& order, std::int32_t seed) {
  constexpr std::chrono::seconds deadline{5};
  device.synchronize();
  const ResourceUse before = device.resource_use();
  auto communicator = device.create_communicator({.name = "destroy order"});
  std::array<Communicator*, 1> used{communicator.get()};
  auto scene = std::make_unique<Scene>(device, 16, used, true);
  if (!scene->replays_rightly(seed)) return "the replays before it are wrong";
  const auto start = std::chrono::steady_clock::now();
  for (const Part part : order) destroy(*scene, communicator, part);
  scene.reset();
  const auto taken = std::chrono::steady_clock::now() - start;
  if (taken > deadline) {
    return fmt::format("it took {:.1f} s", std::chrono::duration<double>(taken).count());
  }
  return what_is_left(before, device.resource_use());
}

}  // namespace

CheckResult judge_destroy_orders(ScenarioContext& context) {
  Order order = all_parts;
  std::sort(order.begin(), order.end());
  int orders = 0;
  Places places;
  auto seed = static_cast<std::int32_t>(context.seed % 1000) + 1;
  do {
    if (!is_legal(order) || !places.add(order)) continue;
    const std::string wrong = destroy_in(*context.device, order, seed++);
    if (!wrong.empty()) {
      return {.verdict = Verdict::fail_teardown,
              .detail = fmt::format("destroyed in the order {}: {}", order_text(order), wrong)};
    }
    ++orders;
  } while (std::next_permutation(order.begin(), order.end()));
  return {.detail = fmt::format("{} orders, in which every part has every place that it may have, "
                                "end in time and leave nothing",
                                orders)};
}

CheckResult judge_recapture(ScenarioContext& context) {
  constexpr int rounds = 20;
  Device& device = *context.device;
  const auto first = device.create_communicator({.name = "recapture 1"});
  const auto second = device.create_communicator({.name = "recapture 2"});
  device.synchronize();
  const ResourceUse before = device.resource_use();
  const auto seed = static_cast<std::int32_t>(context.seed % 1000) + 1;
  for (int round = 0; round < rounds; ++round) {
    const auto bits = static_cast<unsigned>(round);
    std::vector<Communicator*> used;
    if ((bits & 1U) != 0) used.push_back(first.get());
    if ((bits & 2U) != 0) used.push_back(second.get());
    const std::int64_t elements = 1 + round * 997;
    std::string wrong;
    {
      Scene scene(device, elements, used, round % 3 == 0);
      if (!scene.replays_rightly(seed + round)) wrong = "its replays are wrong";
    }
    if (wrong.empty()) wrong = what_is_left(before, device.resource_use());
    const int references = first->live_graph_references() + second->live_graph_references();
    if (wrong.empty() && references > 0) {
      wrong = fmt::format("{} graphs still hold a communicator", references);
    }
    if (wrong.empty()) continue;
    return {.verdict = Verdict::fail_recovery,
            .detail = fmt::format("capture {} of {} elements over {} communicators: {}", round,
                                  elements, used.size(), wrong)};
  }
  return {.detail = fmt::format("{} captures of other bodies, sizes and communicators", rounds)};
}

CheckResult judge_never_launched(ScenarioContext& context) {
  constexpr int rounds = 10;
  Device& device = *context.device;
  const auto communicator = device.create_communicator({.name = "never launched"});
  std::array<Communicator*, 1> used{communicator.get()};
  device.synchronize();
  const ResourceUse before = device.resource_use();
  for (int round = 0; round < rounds; ++round) {
    Scene scene(device, 64, used, true);
    if (round % 2 == 0) scene.exec.reset();
    if (scene.graph->nodes().empty()) {
      return {.verdict = Verdict::fail_coverage, .detail = "nothing was captured"};
    }
  }
  device.synchronize();
  const std::string left = what_is_left(before, device.resource_use());
  if (!left.empty()) return {.verdict = Verdict::fail_leak, .detail = left};
  if (communicator->live_graph_references() > 0) {
    return {.verdict = Verdict::fail_leak,
            .detail = fmt::format("{} graphs hold the communicator though all were destroyed",
                                  communicator->live_graph_references())};
  }
  return {.detail = fmt::format("{} graphs that were never launched left nothing", rounds)};
}

}  // namespace cgconform::suites::checks

#include "suites/checks/order_scenarios.hpp"

#include <array>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "suites/checks/graph_order.hpp"
#include "suites/checks/scenario_numbers.hpp"
#include "suites/comparison.hpp"
#include "workloads/ops/elementwise.hpp"

namespace cgconform::suites::checks {
namespace {

using workloads::Buffer;
using workloads::CaptureMode;
using workloads::DeviceError;
using workloads::ErrorCategory;
using workloads::Event;
using workloads::Graph;
using workloads::GraphExec;
using workloads::GraphNode;
using workloads::Stream;
using workloads::TensorView;

constexpr std::array<std::size_t, 3> fork_widths{2, 4, 64};
constexpr std::int32_t rounds = 3;

/// A graph that copies its input over a number of branches and joins them in one last copy.
class ForkedCopies {
 public:
  ForkedCopies(NumberScene& scene, std::size_t width) : scene_(scene), input_(scene.tensor("in")) {
    for (std::size_t branch = 0; branch < width; ++branch) {
      sides_.push_back(scene.device().create_stream("branch"));
      copies_.push_back(scene.tensor("copy"));
    }
    last_ = scene.tensor("after the join");
  }

  /// The last branch is left out of the join where `join_all` is false.
  std::unique_ptr<Graph> capture(bool join_all) {
    Stream& main = scene_.stream();
    main.begin_capture(CaptureMode::thread_local_mode);
    const std::unique_ptr<Event> forked = scene_.device().create_event();
    main.record(*forked);
    std::vector<std::unique_ptr<Event>> joins;
    for (std::size_t branch = 0; branch < sides_.size(); ++branch) {
      Stream& side = *sides_[branch];
      side.wait(*forked);
      side.copy(copies_[branch].view(), input_.view(), "branch");
      joins.push_back(scene_.device().create_event());
      side.record(*joins.back());
    }
    if (!join_all) joins.pop_back();
    for (const std::unique_ptr<Event>& join : joins) main.wait(*join);
    main.copy(last_.view(), copies_.back().view(), "after the join");
    return main.end_capture();
  }

  bool copies(GraphExec& exec, std::int32_t first) {
    const Numbers given = numbers_from(first);
    scene_.put(input_.view(), given);
    exec.launch(scene_.stream());
    for (const Buffer& copy : copies_) {
      if (scene_.get(copy.view()) != given) return false;
    }
    return scene_.get(last_.view()) == given;
  }

 private:
  NumberScene& scene_;
  Buffer input_;
  std::vector<std::unique_ptr<Stream>> sides_;
  std::vector<Buffer> copies_;
  Buffer last_;
};

/// Control: a branch that is not joined must end the capture with its own code.
bool refuses_unjoined_fork(ForkedCopies& forked) {
  try {
    forked.capture(false);
  } catch (const DeviceError& error) {
    return error.category() == ErrorCategory::stream_capture_unjoined;
  }
  return false;
}

/// Control: without the edges into the last node, branches must be seen not to reach it.
bool sees_a_missing_join(std::span<const GraphNode> nodes) {
  std::vector<GraphNode> broken(nodes.begin(), nodes.end());
  broken.back().dependencies.clear();
  return find_node_not_joined(broken, static_cast<std::int32_t>(broken.size()) - 1).has_value();
}

CheckResult judge_fork(NumberScene& scene, std::size_t width) {
  ForkedCopies forked(scene, width);
  const std::unique_ptr<Graph> graph = forked.capture(true);
  const auto nodes = graph->nodes();
  if (nodes.size() < width + 1) {
    return {.verdict = Verdict::fail_coverage,
            .detail = fmt::format("{} branches gave a graph of {} nodes", width, nodes.size())};
  }
  if (const auto node = find_node_not_joined(nodes, static_cast<std::int32_t>(nodes.size()) - 1)) {
    return {.verdict = Verdict::fail_missing_edge,
            .detail = fmt::format("{} branches: node {} is not joined", width, *node)};
  }
  if (!sees_a_missing_join(nodes)) {
    return {.verdict = Verdict::fail_suite, .detail = "a join taken away was not missed"};
  }
  const std::unique_ptr<GraphExec> exec = graph->instantiate();
  for (std::int32_t round = 0; round < rounds; ++round) {
    if (forked.copies(*exec, round * 100)) continue;
    return {.verdict = Verdict::fail_numeric_mismatch,
            .detail = fmt::format("{} branches: replay {} is wrong", width, round)};
  }
  if (!refuses_unjoined_fork(forked)) {
    return {.verdict = Verdict::fail_capture,
            .detail = fmt::format("{} branches: one left unjoined was not refused", width)};
  }
  return {};
}

/// Holds work back on the device until it is opened; opens at the latest when it goes.
class Gate {
 public:
  ~Gate() { open(); }
  Gate() = default;
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  void hold(Stream& stream) {
    stream.host_function([opened = opened_] { opened.wait(); }, "held back");
  }
  void open() {
    if (!open_) opening_.set_value();
    open_ = true;
  }

 private:
  std::promise<void> opening_;
  std::shared_future<void> opened_ = opening_.get_future().share();
  bool open_ = false;
};

/// A graph of one copy, behind a gate where there is one.
std::unique_ptr<GraphExec> capture_copy(Stream& stream, const TensorView& to,
                                        const TensorView& from, Gate* gate) {
  stream.begin_capture(CaptureMode::thread_local_mode);
  if (gate != nullptr) gate->hold(stream);
  stream.copy(to, from, "late copy");
  return stream.end_capture()->instantiate();
}

struct LateCase {
  bool graph_produces = false;
  bool graph_consumes = false;
  bool two_streams = false;
};

std::string name_of(const LateCase& late) {
  const auto who = [](bool graph) { return graph ? "a graph" : "eager work"; };
  return fmt::format("{} behind {}, on {}", who(late.graph_consumes), who(late.graph_produces),
                     late.two_streams ? "two streams" : "one stream");
}

/// A producer that is held back, and its consumer, each eager or a graph. Graphs are captured ahead
/// of the held work.
class LateCopy {
 public:
  LateCopy(NumberScene& scene, const LateCase& late)
      : scene_(scene),
        late_(late),
        given_(scene.tensor("given")),
        produced_(scene.tensor("produced")),
        consumed_(scene.tensor("consumed")),
        second_(scene.device().create_stream("second")),
        produced_event_(scene.device().create_event()) {
    scene.put(produced_.view(), numbers_from(before));
    scene.put(given_.view(), numbers_from(after));
    scene.stream().synchronize();
    if (late.graph_produces) {
      producer_ = capture_copy(scene.stream(), produced_.view(), given_.view(), &gate_);
    }
    if (late.graph_consumes) {
      consumer_ = capture_copy(consumer_stream(), consumed_.view(), produced_.view(), nullptr);
    }
  }

  void produce() {
    Stream& stream = scene_.stream();
    if (producer_) {
      producer_->launch(stream);
    } else {
      gate_.hold(stream);
      stream.copy(produced_.view(), given_.view(), "late copy");
    }
    stream.record(*produced_event_);
  }
  void consume() {
    Stream& stream = consumer_stream();
    if (late_.two_streams) stream.wait(*produced_event_);
    if (consumer_) {
      consumer_->launch(stream);
    } else {
      stream.copy(consumed_.view(), produced_.view(), "consumer");
    }
  }
  void wait_for_consumer() { consumer_stream().synchronize(); }
  bool held_back() { return !produced_event_->query(); }
  /// Lets the producer run, and says whether the consumer saw what it made.
  bool release() {
    gate_.open();
    scene_.stream().synchronize();
    return scene_.get(consumer_stream(), consumed_.view()) == numbers_from(after);
  }

 private:
  static constexpr std::int32_t before = 1000;
  static constexpr std::int32_t after = 2000;

  Stream& consumer_stream() { return late_.two_streams ? *second_ : scene_.stream(); }

  NumberScene& scene_;
  LateCase late_;
  Buffer given_;
  Buffer produced_;
  Buffer consumed_;
  std::unique_ptr<Stream> second_;
  std::unique_ptr<Event> produced_event_;
  std::unique_ptr<GraphExec> producer_;
  std::unique_ptr<GraphExec> consumer_;
  Gate gate_;  ///< last: it opens before anything waits for the held work to end
};

CheckResult judge_late_producer(NumberScene& scene, const LateCase& late) {
  LateCopy copy(scene, late);
  copy.produce();
  copy.consume();
  if (!copy.held_back()) {
    return {.verdict = Verdict::fail_suite,
            .detail = fmt::format("{}: the producer was not held back", name_of(late))};
  }
  if (!copy.release()) {
    return {.verdict = Verdict::fail_missing_edge,
            .detail = fmt::format("{}: the consumer ran before its producer", name_of(late))};
  }
  // Control: a consumer enqueued ahead of the producer sees the old value.
  LateCopy early(scene, late);
  early.consume();
  early.wait_for_consumer();
  early.produce();
  if (early.release()) {
    return {.verdict = Verdict::fail_suite,
            .detail = fmt::format("{}: a consumer ahead of its producer was not told apart",
                                  name_of(late))};
  }
  return {};
}

}  // namespace

CheckResult judge_fork_and_join(ScenarioContext& context) {
  NumberScene scene(*context.device);
  for (const std::size_t width : fork_widths) {
    CheckResult result = judge_fork(scene, width);
    if (result.verdict != Verdict::pass) return result;
  }
  return {.detail = "forks of 2, 4 and 64 branches are joined and right"};
}

CheckResult judge_order_across_graphs(ScenarioContext& context) {
  NumberScene scene(*context.device);
  std::size_t cases = 0;
  for (const bool graph_produces : {false, true}) {
    for (const bool graph_consumes : {false, true}) {
      for (const bool two_streams : {false, true}) {
        CheckResult result =
            judge_late_producer(scene, {graph_produces, graph_consumes, two_streams});
        if (result.verdict != Verdict::pass) return result;
        ++cases;
      }
    }
  }
  return {.detail = fmt::format("{} ways of graph and eager work behind a late producer are in "
                                "order",
                                cases)};
}

CheckResult judge_one_executable_on_two_streams(ScenarioContext& context) {
  workloads::Device& device = *context.device;
  const auto first = device.create_stream("first");
  const auto second = device.create_stream("second");
  workloads::CachingAllocator allocator(device.segment_source());
  const auto make = [&](const char* label) {
    return Buffer(allocator, *first, workloads::default_pool, workloads::DType::fp32,
                  workloads::Shape{1}, label);
  };
  const Buffer total = make("total");
  const Buffer one = make("one");
  constexpr float unit = 1.0F;
  first->fill(total.view(), 0, "total");
  first->upload(one.view(), &unit, false, "one");
  first->synchronize();
  first->begin_capture(CaptureMode::thread_local_mode);
  workloads::accumulate(*first, total.view(), one.view(), "count");
  const auto exec = first->end_capture()->instantiate();
  constexpr int launches = 20;
  for (int launch = 0; launch < launches; ++launch) {
    exec->launch(launch % 2 == 0 ? *first : *second);
  }
  device.synchronize();
  float seen = 0.0F;
  first->download(&seen, total.view());
  if (seen != static_cast<float>(launches)) {
    return {.check_id = "CCY-03",
            .verdict = Verdict::fail_missing_edge,
            .detail = fmt::format("{} launches on two streams counted to {}", launches, seen)};
  }
  return {.check_id = "CCY-03",
          .detail =
              fmt::format("{} launches of one executable on two streams ran one by one", launches)};
}

CheckResult judge_sums_in_another_order(ScenarioContext& context) {
  workloads::Device& device = *context.device;
  const auto stream = device.create_stream("sums");
  workloads::CachingAllocator allocator(device.segment_source());
  const auto make = [&](float value) {
    Buffer buffer(allocator, *stream, workloads::default_pool, workloads::DType::fp32,
                  workloads::Shape{1}, "term");
    stream->upload(buffer.view(), &value, false, "term");
    stream->synchronize();
    return buffer;
  };
  // In fp32 a unit in the last place of 1 is lost when it is added alone, and kept when two are.
  constexpr float large = 1.0F;
  constexpr float half_ulp = 5.9604645e-8F;
  const Buffer one_by_one = make(large);
  const Buffer small = make(half_ulp);
  workloads::accumulate(*stream, one_by_one.view(), small.view(), "one by one");
  workloads::accumulate(*stream, one_by_one.view(), small.view(), "one by one");
  const Buffer together = make(half_ulp);
  workloads::accumulate(*stream, together.view(), small.view(), "small ones first");
  const Buffer sum = make(large);
  workloads::accumulate(*stream, sum.view(), together.view(), "small ones first");
  stream->synchronize();

  const auto comparator = create_device_comparator(device);
  const std::array<ComparisonPair, 1> pair{{{one_by_one.view(), sum.view()}}};
  const bool equal = comparator->compare(pair, Tolerance{}).front().equal();
  const bool close =
      comparator->compare(pair, tolerance_of(workloads::DType::fp32)).front().equal();
  if (equal) {
    return {.check_id = "NUM-33",
            .verdict = Verdict::fail_suite,
            .detail = "the two orders of the sum give the same bits: nothing was tested"};
  }
  if (!close) {
    return {.check_id = "NUM-33",
            .verdict = Verdict::fail_numeric_mismatch,
            .detail = "a sum in another order is not within the tolerance of fp32"};
  }
  return {.check_id = "NUM-33",
          .detail = "a sum in another order differs in bits and is within tolerance"};
}

}  // namespace cgconform::suites::checks

#include "suites/checks/communicator_scenarios.hpp"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "suites/checks/graph_order.hpp"
#include "suites/checks/scenario_numbers.hpp"
#include "workloads/parallel/launch_ledger.hpp"

namespace cgconform::suites::checks {
namespace {

using workloads::Buffer;
using workloads::CaptureMode;
using workloads::Communicator;
using workloads::DeviceError;
using workloads::ErrorCategory;
using workloads::Event;
using workloads::Graph;
using workloads::GraphExec;
using workloads::GraphNode;
using workloads::LaunchIntent;
using workloads::LaunchLedger;
using workloads::ReduceOp;
using workloads::Stream;

constexpr std::int32_t step_of_rank = 100;

Numbers own_numbers(std::int32_t first, const Communicator& communicator) {
  return numbers_from(first + step_of_rank * communicator.rank());
}

CheckResult wrong_sum(std::string_view where) {
  return {.verdict = Verdict::fail_numeric_mismatch,
          .detail = fmt::format("{}: the sum over ranks is wrong", where)};
}

/// An all-reduce on a communicator of its own, eager or from a graph.
class ReduceGraph {
 public:
  ReduceGraph(ScenarioContext& context, NumberScene& scene, const std::string& name)
      : communicator(context.communicator(name)),
        scene_(scene),
        source_(scene.tensor("source")),
        sum_(scene.tensor("sum")) {}

  void reduce() {
    communicator->all_reduce(sum_.view(), source_.view(), ReduceOp::sum, scene_.stream(),
                             "scenario all_reduce");
  }

  void capture() {
    scene_.stream().begin_capture(CaptureMode::thread_local_mode);
    reduce();
    graph_ = scene_.stream().end_capture();
    exec_ = graph_->instantiate();
  }

  void launch() { exec_->launch(scene_.stream()); }

  void put(std::int32_t first) { scene_.put(source_.view(), own_numbers(first, *communicator)); }
  bool holds_sum(std::int32_t first) {
    return scene_.get(sum_.view()) == summed_over_ranks(first, communicator->size());
  }

  LaunchIntent intent() const {
    return {.name = communicator->name(),
            .kind = LaunchIntent::Kind::replay,
            .replay = exec_->launches(),
            .communications = workloads::communications_of(graph_->nodes())};
  }

  // Graphs go before the communicator they hold.
  std::unique_ptr<Communicator> communicator;

 private:
  NumberScene& scene_;
  Buffer source_;
  Buffer sum_;
  std::unique_ptr<Graph> graph_;
  std::unique_ptr<GraphExec> exec_;
};

/// Two graphs on two communicators, warmed up and captured.
class TwoGraphs {
 public:
  explicit TwoGraphs(ScenarioContext& context)
      : scene_(*context.device),
        gang_(*context.gang),
        ledger_(gang_),
        first_(context, scene_, "first of two"),
        second_(context, scene_, "second of two") {
    for (ReduceGraph* graph : {&first_, &second_}) {
      graph->put(0);
      graph->reduce();
      scene_.stream().synchronize();
      graph->capture();
    }
  }

  bool last_rank() const { return gang_.rank() == gang_.size() - 1; }

  /// Launches both, each after agreement. `opposite` turns the order round on the last rank.
  void launch_both(bool opposite) {
    std::pair<ReduceGraph*, ReduceGraph*> order{&first_, &second_};
    if (opposite && last_rank()) std::swap(order.first, order.second);
    for (ReduceGraph* graph : {order.first, order.second}) {
      ledger_.agree(graph->intent());
      graph->launch();
    }
  }

  void put(std::int32_t first) {
    first_.put(first);
    second_.put(first + 1);
  }
  bool hold_sums(std::int32_t first) {
    return first_.holds_sum(first) && second_.holds_sum(first + 1);
  }

 private:
  NumberScene scene_;
  Communicator& gang_;
  LaunchLedger ledger_;
  ReduceGraph first_;
  ReduceGraph second_;
};

/// What the ledger says about the opposite order; empty where it says nothing.
std::optional<std::string> report_of_opposite_order(TwoGraphs& graphs) {
  const ErrorCategory expected =
      graphs.last_rank() ? ErrorCategory::communicator_order : ErrorCategory::communicator_error;
  try {
    graphs.launch_both(true);
  } catch (const DeviceError& error) {
    if (error.category() == expected) return error.what();
    throw;
  }
  return std::nullopt;
}

CheckResult launch_in_order(TwoGraphs& graphs) {
  constexpr std::int32_t rounds = 3;
  for (std::int32_t round = 0; round < rounds; ++round) {
    graphs.put(round);
    graphs.launch_both(false);
    if (!graphs.hold_sums(round)) return wrong_sum(fmt::format("launch {}", round));
  }
  return {.detail =
              fmt::format("two graphs on two communicators agree and are right, {} times", rounds)};
}

/// Captures one all-reduce on each of several branches of one capture.
class BranchedReductions {
 public:
  BranchedReductions(ScenarioContext& context, NumberScene& scene)
      : communicator(context.communicator("branches")), scene_(scene) {
    for (std::int32_t branch = 0; branch < branches; ++branch) {
      sides_.push_back(scene.device().create_stream("branch"));
      sources_.push_back(scene.tensor("source"));
      sums_.push_back(scene.tensor("sum"));
    }
  }

  void reduce(std::size_t branch, Stream& stream) {
    communicator->all_reduce(sums_[branch].view(), sources_[branch].view(), ReduceOp::sum, stream,
                             fmt::format("branch {}", branch));
  }

  void warm_up() {
    put(0);
    for (std::size_t branch = 0; branch < sides_.size(); ++branch) reduce(branch, scene_.stream());
    scene_.stream().synchronize();
  }

  std::unique_ptr<Graph> capture() {
    Stream& main = scene_.stream();
    main.begin_capture(CaptureMode::thread_local_mode);
    const std::unique_ptr<Event> forked = scene_.device().create_event();
    main.record(*forked);
    std::vector<std::unique_ptr<Event>> joins;
    for (std::size_t branch = 0; branch < sides_.size(); ++branch) {
      Stream& side = *sides_[branch];
      side.wait(*forked);
      reduce(branch, side);
      joins.push_back(scene_.device().create_event());
      side.record(*joins.back());
    }
    for (const std::unique_ptr<Event>& join : joins) main.wait(*join);
    return main.end_capture();
  }

  void put(std::int32_t first) {
    for (std::size_t branch = 0; branch < sources_.size(); ++branch) {
      scene_.put(sources_[branch].view(),
                 own_numbers(first + static_cast<std::int32_t>(branch), *communicator));
    }
  }
  bool hold_sums(std::int32_t first) {
    for (std::size_t branch = 0; branch < sums_.size(); ++branch) {
      const Numbers expected =
          summed_over_ranks(first + static_cast<std::int32_t>(branch), communicator->size());
      if (scene_.get(sums_[branch].view()) != expected) return false;
    }
    return true;
  }

  static constexpr std::int32_t branches = 4;
  std::unique_ptr<Communicator> communicator;

 private:
  NumberScene& scene_;
  std::vector<std::unique_ptr<Stream>> sides_;
  std::vector<Buffer> sources_;
  std::vector<Buffer> sums_;
};

/// Control of the search: without the edges into the last communication it must find a pair.
bool sees_a_missing_path(std::span<const GraphNode> nodes, const std::string& communicator) {
  std::vector<GraphNode> broken(nodes.begin(), nodes.end());
  for (auto node = broken.rbegin(); node != broken.rend(); ++node) {
    if (node->communicator != communicator) continue;
    node->dependencies.clear();
    break;
  }
  return find_unjoined_communications(broken, communicator).has_value();
}

}  // namespace

CheckResult judge_order_on_one_communicator(ScenarioContext& context) {
  NumberScene scene(*context.device);
  BranchedReductions reductions(context, scene);
  reductions.warm_up();
  const std::unique_ptr<Graph> graph = reductions.capture();
  const std::string& name = reductions.communicator->name();
  const std::uint64_t calls = count_communications(graph->nodes(), name);
  if (calls != BranchedReductions::branches) {
    return {.verdict = Verdict::fail_coverage,
            .detail = fmt::format("{} collectives were captured on '{}', the graph holds {}",
                                  BranchedReductions::branches, name, calls)};
  }
  if (const auto pair = find_unjoined_communications(graph->nodes(), name)) {
    return {.verdict = Verdict::fail_missing_edge,
            .detail = fmt::format("no path joins nodes {} and {}, both on communicator '{}'",
                                  pair->first, pair->second, name)};
  }
  if (!sees_a_missing_path(graph->nodes(), name)) {
    return {.verdict = Verdict::fail_suite, .detail = "a path taken away was not missed"};
  }
  const std::unique_ptr<GraphExec> exec = graph->instantiate();
  constexpr std::int32_t replays = 4;
  for (std::int32_t replay = 1; replay <= replays; ++replay) {
    reductions.put(replay);
    exec->launch(scene.stream());
    if (!reductions.hold_sums(replay)) return wrong_sum(fmt::format("replay {}", replay));
  }
  return {.detail = fmt::format("{} collectives on branches of one capture are in order, and right "
                                "in {} replays",
                                calls, replays)};
}

CheckResult judge_opposite_order(ScenarioContext& context) {
  TwoGraphs graphs(context);
  if (!report_of_opposite_order(graphs)) {
    return {.verdict = Verdict::fail_comm_order,
            .detail = "the opposite order on the last rank was not reported"};
  }
  return launch_in_order(graphs);
}

CheckResult launch_in_opposite_order(ScenarioContext& context) {
  TwoGraphs graphs(context);
  CheckResult result{.check_id = "COM-11"};
  if (const auto report = report_of_opposite_order(graphs)) {
    result.verdict = Verdict::fail_comm_order;
    result.detail = *report;
  }
  return result;
}

CheckResult launch_in_one_order(ScenarioContext& context) {
  TwoGraphs graphs(context);
  CheckResult result = launch_in_order(graphs);
  result.check_id = "COM-11";
  return result;
}

CheckResult judge_eager_and_graph_in_turn(ScenarioContext& context) {
  NumberScene scene(*context.device);
  ReduceGraph reduction(context, scene, "in turn");
  constexpr std::int32_t rounds = 2;
  for (std::int32_t round = 0; round < rounds; ++round) {
    const std::int32_t eager = 2 * round;
    reduction.put(eager);
    reduction.reduce();
    if (!reduction.holds_sum(eager)) return wrong_sum(fmt::format("eager use {}", round));
    if (round == 0) reduction.capture();
    const std::int32_t captured = eager + 1;
    reduction.put(captured);
    reduction.launch();
    if (!reduction.holds_sum(captured)) return wrong_sum(fmt::format("replay {}", round));
  }
  if (const auto error = reduction.communicator->async_error(); error != ErrorCategory::success) {
    return {.verdict = Verdict::fail_comm_nonuniform,
            .detail = fmt::format("the communicator reports {} afterwards",
                                  workloads::error_category_name(error))};
  }
  return {.detail = "eager, graph, eager and graph on one communicator are right"};
}

CheckResult replay_unequally_without_communicator(ScenarioContext& context) {
  NumberScene scene(*context.device);
  LaunchLedger ledger(*context.gang);
  const Buffer source = scene.tensor("source");
  const Buffer copy = scene.tensor("copy");
  scene.stream().begin_capture(CaptureMode::thread_local_mode);
  scene.stream().copy(copy.view(), source.view(), "scenario copy");
  const std::unique_ptr<Graph> graph = scene.stream().end_capture();
  const std::unique_ptr<GraphExec> exec = graph->instantiate();
  constexpr std::int32_t fewest = 2;
  for (std::int32_t replay = 0; replay < fewest + context.gang->rank(); ++replay) {
    scene.put(source.view(), numbers_from(replay));
    ledger.agree({.name = "local copy",
                  .kind = LaunchIntent::Kind::replay,
                  .replay = exec->launches(),
                  .communications = workloads::communications_of(graph->nodes())});
    exec->launch(scene.stream());
    if (scene.get(copy.view()) != numbers_from(replay)) {
      return {.check_id = "COM-09",
              .verdict = Verdict::fail_numeric_mismatch,
              .detail = fmt::format("replay {} is wrong", replay)};
    }
  }
  TwoGraphs graphs(context);
  CheckResult result = launch_in_order(graphs);
  result.check_id = "COM-09";
  return result;
}

}  // namespace cgconform::suites::checks

#include "workloads/device/reference/reference_graph.hpp"

#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "workloads/device/reference/reference_stream.hpp"

namespace cgconform::workloads::reference {
namespace {

// One step of SplitMix64: neighbouring seeds, graphs and launches give unrelated orders.
std::uint64_t mix(std::uint64_t value) {
  value += 0x9e3779b97f4a7c15U;
  value = (value ^ (value >> 30U)) * 0xbf58476d1ce4e5b9U;
  value = (value ^ (value >> 27U)) * 0x94d049bb133111ebU;
  return value ^ (value >> 31U);
}

/// Why an executable made from `current` cannot run `next`; empty where it can.
std::string difference(std::span<const GraphNode> current, std::span<const GraphNode> next) {
  if (current.size() != next.size()) {
    return fmt::format("{} nodes in place of {}", next.size(), current.size());
  }
  for (std::size_t i = 0; i < current.size(); ++i) {
    if (current[i].kind != next[i].kind || current[i].op_name != next[i].op_name) {
      return fmt::format("node {} is {} in place of {}", i, next[i].op_name, current[i].op_name);
    }
    if (current[i].dependencies != next[i].dependencies) {
      return fmt::format("node {} depends on other nodes", i);
    }
  }
  return {};
}

/// A label inside a quoted string of DOT.
std::string dot_text(std::string_view label) {
  std::string text;
  for (const char c : label) {
    if (c == '"' || c == '\\') text += '\\';
    text += c;
  }
  return text;
}

}  // namespace

ReferenceGraph::ReferenceGraph(std::shared_ptr<Core> core, std::shared_ptr<const GraphBody> body)
    : core_(std::move(core)),
      live_(core_->live_objects().graphs),
      references_(std::move(body)),
      number_(core_->next_graph_number()) {}

std::string ReferenceGraph::dot() const {
  std::string text =
      fmt::format("digraph dot {{\nsubgraph cluster_{0} {{\nlabel=\"graph_{0}\";\n", number_);
  const auto name = [&](std::size_t node) {
    return fmt::format("\"graph_{}_node_{}\"", number_, node);
  };
  for (std::size_t node = 0; node < nodes().size(); ++node) {
    const GraphNode& described = nodes()[node];
    text +=
        fmt::format("{}[shape=\"rectangle\" label=\"{} {} {}\"];\n", name(node),
                    node_kind_name(described.kind), described.op_name, dot_text(described.label));
  }
  for (std::size_t node = 0; node < nodes().size(); ++node) {
    for (const std::int32_t from : nodes()[node].dependencies) {
      text += fmt::format("{} -> {};\n", name(static_cast<std::size_t>(from)), name(node));
    }
  }
  return text + "}\n}\n";
}

std::unique_ptr<GraphExec> ReferenceGraph::instantiate(const InstantiateOptions& /*options*/) {
  return core_->call("instantiate", {}, [&]() -> std::unique_ptr<GraphExec> {
    core_->require_safe(CaptureViolation::instantiate_graph, "instantiate");
    return std::make_unique<ReferenceGraphExec>(core_, references_.body(), number_, user_objects_);
  });
}

std::unique_ptr<Graph> ReferenceGraph::clone() const {
  return core_->call("graph clone", {}, [&]() -> std::unique_ptr<Graph> {
    auto copy = std::make_unique<ReferenceGraph>(core_, references_.body());
    copy->user_objects_ = user_objects_;
    return copy;
  });
}

GraphCensus ReferenceGraph::census() const {
  GraphCensus census;
  for (const GraphNode& node : nodes()) {
    ++census.nodes[std::string(node_kind_name(node.kind))];
    census.edges += node.dependencies.size();
  }
  return census;
}

void ReferenceGraph::retain(std::shared_ptr<void> user_object) {
  core_->call("graph retain", {}, [&] { user_objects_.push_back(std::move(user_object)); });
}

ReferenceGraphExec::ReferenceGraphExec(std::shared_ptr<Core> core,
                                       std::shared_ptr<const GraphBody> body,
                                       std::uint64_t graph_number,
                                       std::vector<std::shared_ptr<void>> user_objects)
    : core_(std::move(core)),
      live_(core_->live_objects().executables),
      references_(std::make_shared<const GraphReferences>(std::move(body))),
      graph_number_(graph_number),
      user_objects_(std::move(user_objects)) {}

void ReferenceGraphExec::upload(Stream& stream) {
  // The host's graphs are where they run; what is left is the rule for calls inside a capture.
  core_->call("graph upload", {}, [&] {
    static_cast<void>(state_of(stream));
    core_->require_safe(CaptureViolation::instantiate_graph, "graph upload");
  });
}

void ReferenceGraphExec::launch(Stream& stream) {
  core_->call("graph launch", {}, [&] {
    const std::uint64_t seed = mix(mix(mix(core_->replay_seed()) + graph_number_) + launches_);
    core_->launch_graph(state_of(stream),
                        {.graph = references_, .replay = launches_, .order_seed = seed},
                        last_launch_);
    ++launches_;
  });
}

UpdateOutcome ReferenceGraphExec::update(const Graph& graph) {
  return core_->call("graph update", {}, [&]() -> UpdateOutcome {
    const auto& next = static_cast<const ReferenceGraph&>(graph);
    std::string reason = difference(references_->body()->nodes(), next.nodes());
    if (!reason.empty()) return {.updated = false, .reason = std::move(reason)};
    references_ = std::make_shared<const GraphReferences>(next.body());
    return {.updated = true};
  });
}

}  // namespace cgconform::workloads::reference

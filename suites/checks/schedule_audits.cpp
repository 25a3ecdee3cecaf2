#include "suites/checks/schedule_audits.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "matrix/moe_layers.hpp"
#include "suites/cell_plan.hpp"
#include "suites/checks/leg_choice.hpp"
#include "suites/checks/leg_equality.hpp"
#include "suites/coverage_plan.hpp"
#include "suites/graph_topology.hpp"
#include "suites/layer_parts.hpp"
#include "suites/leg_set.hpp"
#include "suites/pipeline_passes.hpp"
#include "suites/planned_pieces.hpp"

namespace cgconform::suites::checks {
namespace {

using matrix::CudaGraphImpl;
using matrix::CudaGraphModule;
using workloads::ExecutionRecord;
using workloads::GraphRecord;
using workloads::LegRecord;
using workloads::LegRequest;
using workloads::NodeKind;

/// Among the ranks that run one layer together: such communication belongs to the layer.
bool inside_of_layer(const workloads::GraphNode& node) {
  const auto names = [&](const char* group) {
    return node.communicator.find(group) != std::string::npos;
  };
  return names("tensor parallel") || names("expert parallel");
}

/// Messages between stages.
std::int64_t count_nodes(const GraphRecord& graph, std::string_view op) {
  return std::count_if(graph.nodes.begin(), graph.nodes.end(), [&](const auto& node) {
    return node.kind == NodeKind::communication && node.op_name == op && !inside_of_layer(node);
  });
}

/// Messages of a training step on a rank.
struct Transfers {
  std::int64_t sends = 0;
  std::int64_t receives = 0;
};

Transfers planned_transfers(const matrix::Cell& cell, int rank) {
  const std::int32_t stage = stage_of(cell, rank);
  const std::int32_t last_stage = cell.config.pipeline_model_parallel_size - 1;
  const std::int32_t last_chunk = chunk_count(cell) - 1;
  Transfers planned;
  for (const Pass& pass : training_passes(cell, rank)) {
    const bool begins = stage == 0 && pass.chunk == 0;
    const bool ends = stage == last_stage && pass.chunk == last_chunk;
    planned.receives += (pass.forward ? begins : ends) ? 0 : 1;
    planned.sends += (pass.forward ? ends : begins) ? 0 : 1;
  }
  return planned;
}

/// Micro-batches whose captures a layer must keep apart.
std::int32_t kept_apart(const matrix::Cell& cell) {
  return cell.config.pipeline_model_parallel_size > 1 ? cell.config.num_microbatches : 1;
}

std::optional<std::string> find_wrong_count(const matrix::Cell& cell, const LegRecord& record) {
  std::map<std::pair<std::int32_t, std::string_view>, std::set<std::int32_t>> microbatches;
  for (const GraphRecord& graph : record.graphs) {
    if (graph.layer < 0) continue;
    microbatches[{graph.layer, workloads::pass_name(graph.forward, graph.wgrad)}].insert(
        graph.microbatch);
  }
  for (const auto& [key, seen] : microbatches) {
    if (static_cast<std::int32_t>(seen.size()) == kept_apart(cell)) continue;
    return fmt::format("layer {} has {} graphs for {} micro-batches, the schedule asks for {}",
                       key.first, key.second, seen.size(), kept_apart(cell));
  }
  return std::nullopt;
}

/// Graphs that share memory are replayed in the order they were captured in, round after round. A
/// step that leaves graphs out or prefers some is no matter of order, but of coverage.
std::optional<std::string> find_other_order(const LegRecord& record) {
  // The optimizer's graph comes after those of layers, and is launched once a step.
  const auto graphs = static_cast<std::size_t>(
      std::count_if(record.graphs.begin(), record.graphs.end(),
                    [](const GraphRecord& graph) { return graph.layer >= 0; }));
  std::map<std::int32_t, std::vector<std::size_t>> replays;  // by step
  for (const ExecutionRecord& execution : record.executions) {
    if (!execution.replayed || execution.validation || execution.layer < 0) continue;
    replays[execution.step].push_back(static_cast<std::size_t>(execution.graph));
  }
  for (const auto& [step, launched] : replays) {
    std::vector<std::size_t> times(graphs, 0);
    for (const std::size_t graph : launched) ++times.at(graph);
    if (std::any_of(times.begin(), times.end(), [&](auto n) { return n != times[0]; })) continue;
    for (std::size_t i = 0; i < launched.size(); ++i) {
      if (launched[i] == i % graphs) continue;
      return fmt::format("step {} replays '{}' where '{}' was captured", step,
                         record.graphs[launched[i]].name, record.graphs[i % graphs].name);
    }
  }
  return std::nullopt;
}

std::optional<std::string> find_foreign_write(const LegRecord& record) {
  std::map<const void*, const GraphRecord*> owners;
  for (const GraphRecord& graph : record.graphs) {
    if (graph.input != nullptr) owners.try_emplace(graph.input, &graph);
  }
  for (const GraphRecord& graph : record.graphs) {
    for (const auto& node : graph.nodes) {
      for (const auto& operand : node.operands) {
        const auto owner = owners.find(operand.tensor.data);
        if (operand.access == workloads::Access::read || owner == owners.end()) continue;
        return fmt::format("'{}' writes the static input of '{}' out of its turn ({})", graph.name,
                           owner->second->name, node.label);
      }
    }
  }
  return std::nullopt;
}

}  // namespace

bool captured_pipelines(const matrix::Cell& cell) {
  return is_graph_cell(cell) && !cells_with_layer_graphs(cell) &&
         cell.config.pipeline_model_parallel_size > 1;
}

bool cells_with_layer_graphs(const matrix::Cell& cell) {
  const bool local = cell.config.cuda_graph_impl == CudaGraphImpl::local &&
                     !cell.config.cuda_graph_scope.contains(CudaGraphModule::full_iteration);
  return local || cells_with_callables(cell);
}

bool layer_graphs_in_pipelines(const matrix::Cell& cell) {
  return cells_with_layer_graphs(cell) && cell.config.pipeline_model_parallel_size > 1;
}

bool cells_with_callables(const matrix::Cell& cell) {
  return cell.config.cuda_graph_impl == CudaGraphImpl::transformer_engine;
}

bool partly_graphed_cells(const matrix::Cell& cell) {
  return cells_with_layer_graphs(cell) && cell.shape.graphed_layers != matrix::GraphedLayers::all;
}

CheckResult judge_captured_transfers(JudgeContext& context) {
  const Transfers planned = planned_transfers(context.cell, context.rank);
  for (const LegRequest& request : graph_legs(context.cell)) {
    const LegRecord& record = context.legs.record(request);
    const auto training =
        std::find_if(record.graphs.begin(), record.graphs.end(),
                     [](const GraphRecord& graph) { return graph.name == "iteration training"; });
    if (training == record.graphs.end()) {
      return failed_leg(Verdict::fail_coverage, request, "no training iteration was captured");
    }
    const std::int64_t sends = count_nodes(*training, "send");
    const std::int64_t receives = count_nodes(*training, "receive");
    if (sends != planned.sends || receives != planned.receives) {
      return failed_leg(
          Verdict::fail_coverage, request,
          fmt::format("the graph holds {} sends and {} receives, the schedule has {} and "
                      "{}",
                      sends, receives, planned.sends, planned.receives));
    }
  }
  return judge_equality(context, fmt::format("with {} sends and {} receives in the graph",
                                             planned.sends, planned.receives));
}

CheckResult judge_eager_transfers(JudgeContext& context) {
  for (const LegRequest& request : graph_legs(context.cell)) {
    for (const GraphRecord& graph : context.legs.record(request).graphs) {
      // The optimizer's graph sums up the norm that gradients are clipped by.
      if (graph.scope == optimizer_scope) continue;
      for (const auto& node : graph.nodes) {
        if (node.kind != NodeKind::communication || inside_of_layer(node)) continue;
        return failed_leg(
            Verdict::fail_coverage, request,
            fmt::format("'{}' holds a {}, which has to stay outside", graph.name, node.op_name));
      }
    }
  }
  return judge_equality(context, "with all transfers outside of graphs");
}

CheckResult judge_captured_microbatches(JudgeContext& context) {
  std::size_t graphs = 0;
  for (const LegRequest& request : graph_legs(context.cell)) {
    const LegRecord& record = context.legs.record(request);
    if (auto wrong = find_wrong_count(context.cell, record)) {
      return failed_leg(Verdict::fail_coverage, request, *wrong);
    }
    auto wrong = find_other_order(record);
    if (!wrong) wrong = find_foreign_write(record);
    if (wrong) return failed_leg(Verdict::fail_schedule_order, request, *wrong);
    graphs += record.graphs.size();
  }
  if (graphs == 0) return {.verdict = Verdict::fail_coverage, .detail = "nothing was captured"};
  return {.detail = fmt::format("{} graphs for {} micro-batches a layer, replayed as captured",
                                graphs, kept_apart(context.cell))};
}

CheckResult judge_static_inputs(JudgeContext& context) {
  const matrix::Cell& cell = context.cell;
  const std::vector<LayerSpan> chunks = stage_chunks(cell, context.rank);
  const auto layers_of = [&](const Pass& pass) {
    const LayerSpan& span = chunks.at(static_cast<std::size_t>(pass.chunk));
    std::int64_t layers = 0;
    for (std::int32_t i = 0; i < span.count; ++i)
      layers += captures_layer(cell, span.first + i) ? 1 : 0;
    return layers;
  };
  std::int64_t live = 0;
  std::int64_t needed = 0;
  std::int64_t callables = 0;
  for (const Pass& pass : training_passes(cell, context.rank)) {
    if (pass.microbatch >= kept_apart(cell)) continue;
    live += pass.forward ? layers_of(pass) : -layers_of(pass);
    needed = std::max(needed, live);
    callables += pass.forward ? layers_of(pass) : 0;
  }
  for (const LegRequest& request : graph_legs(cell)) {
    std::set<const void*> inputs;
    for (const GraphRecord& graph : context.legs.record(request).graphs) {
      if (graph.forward && graph.layer >= 0) inputs.insert(graph.input);
    }
    if (inputs.contains(nullptr) || inputs.empty()) {
      return failed_leg(Verdict::fail_coverage, request, "a callable names no static input");
    }
    if (static_cast<std::int64_t>(inputs.size()) != needed) {
      return failed_leg(
          Verdict::fail_leak, request,
          fmt::format("{} static inputs, {} are needed at once", inputs.size(), needed));
    }
  }
  return {.detail = fmt::format("{} static inputs serve {} callables", needed, callables)};
}

CheckResult judge_partial_capture(JudgeContext& context) {
  std::set<std::int32_t> planned;
  for (const LayerSpan& span : stage_chunks(context.cell, context.rank)) {
    for (std::int32_t layer = span.first; layer < span.first + span.count; ++layer) {
      if (captures_layer(context.cell, layer)) planned.insert(layer);
    }
  }
  for (const LegRequest& request : graph_legs(context.cell)) {
    std::set<std::int32_t> captured;
    for (const GraphRecord& graph : context.legs.record(request).graphs) {
      if (graph.layer >= 0) captured.insert(graph.layer);
    }
    const bool may_be_none = captures_elsewhere_only(context.cell, context.rank, GraphsOf::layers);
    if (captured != planned || (captured.empty() && !may_be_none)) {
      return failed_leg(Verdict::fail_coverage, request,
                        fmt::format("layers {} have graphs, the cell asks for {}",
                                    fmt::join(captured, " "), fmt::join(planned, " ")));
    }
  }
  return judge_equality(context,
                        fmt::format("with graphs for layers {} only", fmt::join(planned, " ")));
}

namespace {

/// Place of a rank among those that exchange rows of experts one with another: which of a pair
/// sends first follows from it.
std::int32_t place_in_exchange(const matrix::Cell& cell, int rank) {
  const matrix::TrainingConfig& config = cell.config;
  const bool pairwise =
      config.moe_token_dispatcher_type == matrix::MoeTokenDispatcherType::alltoall;
  if (!pairwise) return 0;
  const std::int32_t ranks_of_stage = cell.ranks() / config.pipeline_model_parallel_size;
  const std::int32_t replica = rank % ranks_of_stage / config.tensor_model_parallel_size;
  return replica % config.expert_model_parallel_size;
}

bool have_one_role(const matrix::Cell& cell, int a, int b) {
  return stage_of(cell, a) == stage_of(cell, b) &&
         place_in_exchange(cell, a) == place_in_exchange(cell, b);
}

}  // namespace

CheckResult judge_topology(JudgeContext& context) {
  for (const LegRequest& request : repeated_graph_legs(context.cell)) {
    // By direction, kind of layer and modules.
    std::map<std::tuple<std::string_view, bool, std::vector<std::string_view>, std::string>,
             const GraphRecord*>
        first_of_role;
    for (const GraphRecord& graph : context.legs.record(request).graphs) {
      if (graph.layer < 0) continue;
      const bool experts = matrix::is_moe_layer(context.cell, graph.layer);
      const auto [first, is_new] =
          first_of_role.try_emplace({workloads::pass_name(graph.forward, graph.wgrad), experts,
                                     parts_of_layer(context.cell, graph.layer), graph.scope},
                                    &graph);
      if (is_new || graph_topology(graph) == graph_topology(*first->second)) continue;
      return failed_leg(
          Verdict::fail_nondeterminism, request,
          fmt::format("'{}' and '{}' are captures of one body, their topologies differ", graph.name,
                      first->second->name));
    }
  }
  const std::uint64_t topology = leg_topology(context.legs.record(graph_leg()));
  if (topology == 0) return {.verdict = Verdict::fail_coverage, .detail = "nothing was captured"};
  const std::uint64_t repeated = leg_topology(context.legs.record(timed_graph_leg()));
  if (repeated != topology) {
    return {.verdict = Verdict::fail_nondeterminism,
            .detail = fmt::format("the leg's graphs have topology {:016x}, captured anew {:016x}",
                                  topology, repeated)};
  }
  int peers = 0;
  const std::vector<std::uint64_t>& all = context.legs.state(graph_leg()).topologies;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const int peer = static_cast<int>(rank);
    if (peer == context.rank || !have_one_role(context.cell, peer, context.rank)) continue;
    if (all[rank] != topology) {
      return {.verdict = Verdict::fail_comm_nonuniform,
              .detail = fmt::format("rank {} has the same role, its graphs have topology {:016x} "
                                    "and not {:016x}",
                                    peer, all[rank], topology)};
    }
    ++peers;
  }
  return {.detail = fmt::format("topology {:016x} twice, and on {} ranks of the same role",
                                topology, peers)};
}

}  // namespace cgconform::suites::checks

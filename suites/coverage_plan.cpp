#include "suites/coverage_plan.hpp"

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "matrix/error.hpp"
#include "suites/pipeline_passes.hpp"

namespace cgconform::suites {
namespace {

using matrix::CudaGraphImpl;
using matrix::CudaGraphModule;

bool validates_after(const matrix::Cell& cell, std::int32_t step) {
  return cell.shape.eval_interval > 0 && (step + 1) % cell.shape.eval_interval == 0;
}

bool is_full_iteration(const matrix::Cell& cell) {
  return cell.config.cuda_graph_impl == CudaGraphImpl::full_iteration ||
         (cell.config.cuda_graph_impl == CudaGraphImpl::local &&
          cell.config.cuda_graph_scope.contains(CudaGraphModule::full_iteration));
}

/// A scope of `local` selects the layer kinds that get graphs: the empty one all, `attn` and `mlp`
/// the dense transformer layers.
bool selects_dense_layers(const matrix::Cell& cell) {
  const matrix::CudaGraphScope scope = cell.config.cuda_graph_scope;
  return scope.empty() || scope.contains(CudaGraphModule::attn) ||
         scope.contains(CudaGraphModule::mlp);
}

/// Plans what has its own count of calls: iterations of one kind, training or validation, or the
/// optimizer's steps.
class CallCounter {
 public:
  CallCounter(CoveragePlan& plan, std::int32_t warmup, const PlannedGraph& graph)
      : plan_(plan), warmup_(warmup), graph_(graph) {}

  void run(std::int32_t step) {
    if (calls_ == warmup_) {
      index_ = static_cast<std::int32_t>(plan_.graphs.size());
      graph_.capture_step = step;
      plan_.graphs.push_back(graph_);
    }
    ++calls_;
    PlannedExecution execution{.step = step, .validation = graph_.validation, .graph = index_};
    if (graph_.optimizer) execution.scope = optimizer_scope;
    if (index_ >= 0) {
      execution.replayed = true;
      ++plan_.graphs[static_cast<std::size_t>(index_)].launches;
    }
    plan_.executions.push_back(std::move(execution));
  }

 private:
  CoveragePlan& plan_;
  std::int32_t warmup_;
  PlannedGraph graph_;
  std::int32_t calls_ = 0;
  std::int32_t index_ = -1;
};

/// The optimizer's steps, where they are graphs.
class OptimizerPlanner {
 public:
  OptimizerPlanner(CoveragePlan& plan, const matrix::Cell& cell)
      : counter_(plan, cell.config.cuda_graph_warmup_steps, {.optimizer = true}),
        captured_(captures_optimizer(cell)) {}

  void run(std::int32_t step) {
    if (captured_) counter_.run(step);
  }

 private:
  CallCounter counter_;
  bool captured_;
};

class LocalPlanner {
 public:
  LocalPlanner(const matrix::Cell& cell, int rank)
      : cell_(cell),
        chunks_(stage_chunks(cell, rank)),
        passes_(training_passes(cell, rank)),
        captures_(selects_dense_layers(cell)) {}

  CoveragePlan plan() {
    if (captures_) plan_graphs();
    OptimizerPlanner optimizer(plan_, cell_);
    for (std::int32_t step = 0; step < planned_steps(cell_); ++step) {
      for_each_layer(chunks_, passes_, [&](const Pass& pass, std::int32_t layer) {
        PlannedExecution execution{
            .step = step, .microbatch = pass.microbatch, .layer = layer, .forward = pass.forward};
        if (captures_ && step > 0 && has_graphs(cell_, layer)) replay(execution);
        plan_.executions.push_back(execution);
      });
      optimizer.run(step);
      if (!validates_after(cell_, step)) continue;
      for_each_layer(chunks_, validation_passes(cell_), [&](const Pass& pass, std::int32_t layer) {
        plan_.executions.push_back({.step = step,
                                    .microbatch = pass.microbatch,
                                    .layer = layer,
                                    .forward = true,
                                    .validation = true});
      });
    }
    return std::move(plan_);
  }

 private:
  using GraphKey = std::tuple<std::int32_t, std::int32_t, bool>;

  GraphKey key_of(const Pass& pass, std::int32_t layer) const {
    const bool pair_for_each_microbatch = cell_.config.pipeline_model_parallel_size > 1;
    return {layer, pair_for_each_microbatch ? pass.microbatch : 0, pass.forward};
  }

  void plan_graphs() {
    for_each_layer(chunks_, passes_, [&](const Pass& pass, std::int32_t layer) {
      if (!has_graphs(cell_, layer)) return;
      const GraphKey key = key_of(pass, layer);
      const auto index = static_cast<std::int32_t>(plan_.graphs.size());
      if (!index_.emplace(key, index).second) return;
      plan_.graphs.push_back({.layer = layer,
                              .microbatch = std::get<1>(key),
                              .forward = pass.forward,
                              .capture_step = 0});
    });
  }

  void replay(PlannedExecution& execution) {
    const Pass pass{execution.microbatch, execution.forward};
    execution.replayed = true;
    execution.graph = index_.at(key_of(pass, execution.layer));
    ++plan_.graphs[static_cast<std::size_t>(execution.graph)].launches;
  }

  const matrix::Cell& cell_;
  std::vector<LayerSpan> chunks_;
  std::vector<Pass> passes_;
  bool captures_;
  CoveragePlan plan_;
  std::map<GraphKey, std::int32_t> index_;
};

/// A part of a layer that runs as a whole, from a graph or eagerly.
struct Piece {
  std::string scope;  ///< empty for the whole layer
  bool captured = false;
};

/// What a scope of `transformer_engine` makes of a dense layer: attention comes before the MLP, and
/// a layer that is captured completely is one piece.
std::vector<Piece> pieces_of_dense_layer(const matrix::CudaGraphScope& scope) {
  const bool all = scope.empty() || scope.contains(CudaGraphModule::full);
  const bool attention = all || scope.contains(CudaGraphModule::attn);
  const bool mlp = all || scope.contains(CudaGraphModule::mlp);
  if (attention == mlp) return {{"", attention}};
  return {{"attn", attention}, {"mlp", mlp}};
}

class CallablePlanner {
 public:
  CallablePlanner(const matrix::Cell& cell, int rank)
      : cell_(cell),
        chunks_(stage_chunks(cell, rank)),
        passes_(training_passes(cell, rank)),
        pieces_(pieces_of_dense_layer(cell.config.cuda_graph_scope)),
        captured_at_(cell.config.cuda_graph_warmup_steps) {}

  CoveragePlan plan() {
    const bool captures =
        captured_at_ >= 0 && std::any_of(pieces_.begin(), pieces_.end(),
                                         [](const Piece& piece) { return piece.captured; });
    if (captures) plan_graphs();
    OptimizerPlanner optimizer(plan_, cell_);
    for (std::int32_t step = 0; step < planned_steps(cell_); ++step) {
      const bool from_graphs = captures && step >= captured_at_;
      for_each_layer(chunks_, passes_, [&](const Pass& pass, std::int32_t layer) {
        if (from_graphs && has_graphs(cell_, layer)) {
          plan_pieces(step, pass, layer);
        } else {
          plan_.executions.push_back({.step = step,
                                      .microbatch = pass.microbatch,
                                      .layer = layer,
                                      .forward = pass.forward});
        }
      });
      optimizer.run(step);
      if (!validates_after(cell_, step)) continue;
      for_each_layer(chunks_, validation_passes(cell_), [&](const Pass& pass, std::int32_t layer) {
        plan_.executions.push_back({.step = step,
                                    .microbatch = pass.microbatch,
                                    .layer = layer,
                                    .forward = true,
                                    .validation = true});
      });
    }
    return std::move(plan_);
  }

 private:
  using GraphKey = std::tuple<std::int32_t, std::int32_t, bool>;

  std::int32_t captured_microbatches() const {
    return cell_.config.pipeline_model_parallel_size == 1 ? 1 : cell_.config.num_microbatches;
  }

  void plan_graphs() {
    for_each_layer(chunks_, passes_, [&](const Pass& pass, std::int32_t layer) {
      if (pass.microbatch >= captured_microbatches() || !has_graphs(cell_, layer)) return;
      index_[{layer, pass.microbatch, pass.forward}] =
          static_cast<std::int32_t>(plan_.graphs.size());
      plan_.graphs.push_back({.layer = layer,
                              .microbatch = pass.microbatch,
                              .forward = pass.forward,
                              .capture_step = captured_at_});
    });
  }

  void plan_pieces(std::int32_t step, const Pass& pass, std::int32_t layer) {
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      const Piece& piece = pieces_[pass.forward ? i : pieces_.size() - 1 - i];
      PlannedExecution execution{.step = step,
                                 .microbatch = pass.microbatch,
                                 .layer = layer,
                                 .forward = pass.forward,
                                 .replayed = piece.captured,
                                 .scope = piece.scope};
      if (piece.captured) {
        execution.graph =
            index_.at({layer, pass.microbatch % captured_microbatches(), pass.forward});
        ++plan_.graphs[static_cast<std::size_t>(execution.graph)].launches;
      }
      plan_.executions.push_back(std::move(execution));
    }
  }

  const matrix::Cell& cell_;
  std::vector<LayerSpan> chunks_;
  std::vector<Pass> passes_;
  std::vector<Piece> pieces_;
  std::int32_t captured_at_;
  CoveragePlan plan_;
  std::map<GraphKey, std::int32_t> index_;
};

CoveragePlan plan_full_iteration(const matrix::Cell& cell) {
  CoveragePlan plan;
  const std::int32_t warmup = cell.config.cuda_graph_warmup_steps;
  CallCounter training(plan, warmup, {});
  CallCounter validation(plan, warmup, {.validation = true});
  OptimizerPlanner optimizer(plan, cell);
  for (std::int32_t step = 0; step < planned_steps(cell); ++step) {
    training.run(step);
    optimizer.run(step);
    if (validates_after(cell, step)) validation.run(step);
  }
  return plan;
}

}  // namespace

bool captures_iterations(const matrix::Cell& cell) {
  return is_full_iteration(cell);
}

bool captures_optimizer(const matrix::Cell& cell) {
  return cell.config.optimizer_cuda_graph && cell.config.cuda_graph_impl != CudaGraphImpl::none;
}

bool runs_before_capture(const matrix::Cell& cell, std::string_view scope) {
  const bool by_its_count = is_full_iteration(cell) || scope == optimizer_scope;
  return !by_its_count || cell.config.cuda_graph_warmup_steps > 0;
}

std::int32_t planned_steps(const matrix::Cell& cell) {
  constexpr std::int32_t replays_after_capture = 2;
  std::int32_t needed = 1;
  if (is_full_iteration(cell)) {
    const std::int32_t captured_at = std::max(cell.config.cuda_graph_warmup_steps, 0);
    needed = captured_at + 1 + replays_after_capture;
    needed = std::max(needed, cell.shape.eval_interval * (captured_at + 2));
  } else if (cell.config.cuda_graph_impl == CudaGraphImpl::local) {
    const std::int32_t optimizer_warmup =
        captures_optimizer(cell) ? std::max(cell.config.cuda_graph_warmup_steps, 0) : 0;
    needed = optimizer_warmup + 1 + replays_after_capture;
  } else if (cell.config.cuda_graph_impl == CudaGraphImpl::transformer_engine) {
    needed = std::max(cell.config.cuda_graph_warmup_steps, 0) + 1 + replays_after_capture;
  }
  return std::max(cell.shape.steps, needed);
}

CoveragePlan plan_coverage(const matrix::Cell& cell, int rank) {
  if (is_full_iteration(cell)) return plan_full_iteration(cell);
  switch (cell.config.cuda_graph_impl) {
    case CudaGraphImpl::none:
      return {};
    case CudaGraphImpl::local:
      return LocalPlanner(cell, rank).plan();
    case CudaGraphImpl::transformer_engine:
      return CallablePlanner(cell, rank).plan();
    default:
      throw InternalError("coverage of this implementation is not planned yet");
  }
}

std::string execution_text(const PlannedExecution& execution) {
  std::string text = fmt::format("step {}", execution.step);
  if (execution.validation) text += " validation";
  if (execution.scope == optimizer_scope) return text + " optimizer";
  if (execution.layer < 0) return text + " iteration";
  return text + fmt::format(" micro-batch {} layer {}{}{} {}", execution.microbatch,
                            execution.layer, execution.scope.empty() ? "" : " ", execution.scope,
                            execution.forward ? "forward" : "backward");
}

}  // namespace cgconform::suites

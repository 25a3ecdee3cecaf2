#include "suites/coverage_plan.hpp"

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "matrix/error.hpp"
#include "suites/pipeline_passes.hpp"
#include "suites/planned_pieces.hpp"
#include "workloads/training/leg_record.hpp"

namespace cgconform::suites {
namespace {

using matrix::CudaGraphImpl;
using matrix::CudaGraphModule;

bool validates_after(const matrix::Cell& cell, std::int32_t step) {
  return cell.shape.eval_interval > 0 && (step + 1) % cell.shape.eval_interval == 0;
}

/// What is captured takes in all of the model: iterations, or their layers as a pair of callables.
bool takes_iterations(const matrix::Cell& cell) {
  return cell.config.cuda_graph_impl == CudaGraphImpl::full_iteration ||
         (cell.config.cuda_graph_impl == CudaGraphImpl::local &&
          cell.config.cuda_graph_scope.contains(CudaGraphModule::full_iteration));
}

bool is_full_iteration(const matrix::Cell& cell) {
  return takes_iterations(cell) && cell.shape.capture_form != matrix::CaptureForm::callables;
}

/// Visits the pieces of a layer with their numbers: in order of execution, in the reverse of it
/// for a backward.
template <typename Visit>
void for_each_piece(const matrix::Cell& cell, const Pass& pass, std::int32_t layer,
                    const Visit& visit) {
  const std::vector<PlannedPiece> pieces = planned_pieces(cell, layer);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const std::size_t number = pass.forward ? i : pieces.size() - 1 - i;
    visit(pieces[number], static_cast<std::int32_t>(number));
  }
}

/// Visits what a pass does with a layer, in order: a forward; or a backward, then the weight
/// gradients that it leaves. `visit` is told whether it is these.
template <typename Visit>
void for_each_part(const matrix::Cell& cell, const Pass& pass, const Visit& visit) {
  visit(false);
  if (!pass.forward && cell.config.delay_wgrad_compute) visit(true);
}

/// Plans an eager pass through a whole layer, with the weight gradients that it leaves; `execution`
/// says of which step.
void plan_eager_layer(CoveragePlan& plan, const matrix::Cell& cell, const Pass& pass,
                      std::int32_t layer, PlannedExecution execution) {
  execution.microbatch = pass.microbatch;
  execution.layer = layer;
  execution.forward = pass.forward;
  for_each_part(cell, pass, [&](bool wgrad) {
    if (wgrad && !leaves_wgrads(cell, layer, {})) return;
    execution.wgrad = wgrad;
    plan.executions.push_back(execution);
  });
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
  /// What does not fit the graph and runs eagerly.
  void run_eagerly(std::int32_t step) { plan_.executions.push_back({.step = step}); }

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
      : cell_(cell), chunks_(stage_chunks(cell, rank)), passes_(training_passes(cell, rank)) {}

  CoveragePlan plan() {
    plan_graphs();
    OptimizerPlanner optimizer(plan_, cell_);
    for (std::int32_t step = 0; step < planned_steps(cell_); ++step) {
      for_each_layer(chunks_, passes_, [&](const Pass& pass, std::int32_t layer) {
        if (captures_layer(cell_, layer) && !leaves_graphs(cell_, step, pass.microbatch)) {
          plan_pieces(step, pass, layer);
          return;
        }
        plan_.executions.push_back(
            {.step = step, .microbatch = pass.microbatch, .layer = layer, .forward = pass.forward});
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
  /// Layer, piece, micro-batch of the graph, and whether it is the forward.
  using GraphKey = std::tuple<std::int32_t, std::int32_t, std::int32_t, bool>;

  GraphKey key_of(const Pass& pass, std::int32_t layer, std::int32_t piece) const {
    const bool pair_for_each_microbatch = cell_.config.pipeline_model_parallel_size > 1;
    return {layer, piece, pair_for_each_microbatch ? pass.microbatch : 0, pass.forward};
  }

  void plan_graphs() {
    for_each_layer(chunks_, passes_, [&](const Pass& pass, std::int32_t layer) {
      if (!has_graphs(cell_, layer)) return;
      for_each_piece(cell_, pass, layer, [&](const PlannedPiece& piece, std::int32_t number) {
        if (!piece.captured) return;
        const GraphKey key = key_of(pass, layer, number);
        const auto index = static_cast<std::int32_t>(plan_.graphs.size());
        if (!index_.emplace(key, index).second) return;
        plan_.graphs.push_back({.layer = layer,
                                .microbatch = std::get<2>(key),
                                .forward = pass.forward,
                                .capture_step = 0,
                                .scope = piece.scope});
      });
    });
  }

  /// The first step records by pieces what later steps replay.
  void plan_pieces(std::int32_t step, const Pass& pass, std::int32_t layer) {
    for_each_piece(cell_, pass, layer, [&](const PlannedPiece& piece, std::int32_t number) {
      PlannedExecution execution{.step = step,
                                 .microbatch = pass.microbatch,
                                 .layer = layer,
                                 .forward = pass.forward,
                                 .replayed = piece.captured && step > 0,
                                 .scope = piece.scope};
      if (execution.replayed) {
        execution.graph = index_.at(key_of(pass, layer, number));
        ++plan_.graphs[static_cast<std::size_t>(execution.graph)].launches;
      }
      plan_.executions.push_back(std::move(execution));
    });
  }

  const matrix::Cell& cell_;
  std::vector<LayerSpan> chunks_;
  std::vector<Pass> passes_;
  CoveragePlan plan_;
  std::map<GraphKey, std::int32_t> index_;
};

class CallablePlanner {
 public:
  CallablePlanner(const matrix::Cell& cell, int rank)
      : cell_(cell),
        chunks_(stage_chunks(cell, rank)),
        passes_(training_passes(cell, rank)),
        captured_at_(cell.config.cuda_graph_warmup_steps) {}

  CoveragePlan plan() {
    const bool captures = captured_at_ >= 0 && captures_any();
    if (captures) plan_graphs();
    OptimizerPlanner optimizer(plan_, cell_);
    for (std::int32_t step = 0; step < planned_steps(cell_); ++step) {
      const bool from_graphs = captures && step >= captured_at_;
      for_each_layer(chunks_, passes_, [&](const Pass& pass, std::int32_t layer) {
        if (from_graphs && captures_layer(cell_, layer) &&
            !leaves_graphs(cell_, step, pass.microbatch)) {
          for_each_part(cell_, pass, [&](bool wgrad) { plan_pieces(step, pass, layer, wgrad); });
          return;
        }
        plan_eager_layer(plan_, cell_, pass, layer, {.step = step});
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
  using GraphKey = std::tuple<std::int32_t, std::int32_t, bool, bool>;

  std::int32_t captured_microbatches() const {
    return cell_.config.pipeline_model_parallel_size == 1 ? 1 : cell_.config.num_microbatches;
  }

  void plan_graphs() {
    for_each_layer(chunks_, passes_, [&](const Pass& pass, std::int32_t layer) {
      if (pass.microbatch >= captured_microbatches() || !captures_layer(cell_, layer)) return;
      const std::vector<PlannedPiece> pieces = planned_pieces(cell_, layer);
      const auto captured = std::find_if(pieces.begin(), pieces.end(),
                                         [](const PlannedPiece& piece) { return piece.captured; });
      for_each_part(cell_, pass, [&](bool wgrad) {
        if (wgrad && !leaves_wgrads(cell_, layer, captured->scope)) return;
        index_[{layer, pass.microbatch, pass.forward, wgrad}] =
            static_cast<std::int32_t>(plan_.graphs.size());
        plan_.graphs.push_back({.layer = layer,
                                .microbatch = pass.microbatch,
                                .forward = pass.forward,
                                .wgrad = wgrad,
                                .capture_step = captured_at_,
                                .scope = captured->scope});
      });
    });
  }

  /// Of the whole model, whatever the stage has.
  bool captures_any() const {
    for (std::int32_t layer = 0; layer < cell_.config.num_layers; ++layer) {
      if (captures_layer(cell_, layer)) return true;
    }
    return false;
  }

  void plan_pieces(std::int32_t step, const Pass& pass, std::int32_t layer, bool wgrad) {
    for_each_piece(cell_, pass, layer, [&](const PlannedPiece& piece, std::int32_t /*number*/) {
      if (wgrad && !leaves_wgrads(cell_, layer, piece.scope)) return;
      PlannedExecution execution{.step = step,
                                 .microbatch = pass.microbatch,
                                 .layer = layer,
                                 .forward = pass.forward,
                                 .wgrad = wgrad,
                                 .replayed = piece.captured,
                                 .scope = piece.scope};
      if (piece.captured) {
        execution.graph =
            index_.at({layer, pass.microbatch % captured_microbatches(), pass.forward, wgrad});
        ++plan_.graphs[static_cast<std::size_t>(execution.graph)].launches;
      }
      plan_.executions.push_back(std::move(execution));
    });
  }

  const matrix::Cell& cell_;
  std::vector<LayerSpan> chunks_;
  std::vector<Pass> passes_;
  std::int32_t captured_at_;
  CoveragePlan plan_;
  std::map<GraphKey, std::int32_t> index_;
};

/// Iterations in parts: one more than the host reads losses of training micro-batches.
class PartsCounter {
 public:
  PartsCounter(CoveragePlan& plan, std::int32_t warmup, const PlannedGraph& graph,
               std::int32_t parts)
      : plan_(plan), warmup_(warmup), graph_(graph), parts_(parts) {}

  /// What does not fit the graphs and runs eagerly.
  void run_eagerly(std::int32_t step) {
    plan_.executions.push_back({.step = step, .validation = graph_.validation});
  }
  void run(std::int32_t step) {
    if (calls_++ < warmup_) {
      run_eagerly(step);
      return;
    }
    if (first_ < 0) {
      first_ = static_cast<std::int32_t>(plan_.graphs.size());
      graph_.capture_step = step;
      for (graph_.part = 0; graph_.part < parts_; ++graph_.part) plan_.graphs.push_back(graph_);
    }
    for (std::int32_t part = first_; part < first_ + parts_; ++part) {
      ++plan_.graphs[static_cast<std::size_t>(part)].launches;
      plan_.executions.push_back(
          {.step = step, .validation = graph_.validation, .replayed = true, .graph = part});
    }
  }

 private:
  CoveragePlan& plan_;
  std::int32_t warmup_;
  PlannedGraph graph_;
  std::int32_t parts_;
  std::int32_t calls_ = 0;
  std::int32_t first_ = -1;
};

CoveragePlan plan_parts(const matrix::Cell& cell) {
  CoveragePlan plan;
  const std::int32_t last = cell.config.num_microbatches - 1;
  const std::int32_t warmup = cell.config.cuda_graph_warmup_steps;
  PartsCounter training(plan, warmup, {}, cell.config.num_microbatches + 1);
  CallCounter validation(plan, warmup, {.validation = true});
  OptimizerPlanner optimizer(plan, cell);
  for (std::int32_t step = 0; step < planned_steps(cell); ++step) {
    if (leaves_graphs(cell, step, last)) {
      training.run_eagerly(step);
    } else {
      training.run(step);
    }
    optimizer.run(step);
    if (validates_after(cell, step)) validation.run(step);
  }
  return plan;
}

CoveragePlan plan_full_iteration(const matrix::Cell& cell) {
  const std::int32_t last = cell.config.num_microbatches - 1;
  CoveragePlan plan;
  const std::int32_t warmup = cell.config.cuda_graph_warmup_steps;
  CallCounter training(plan, warmup, {});
  CallCounter validation(plan, warmup, {.validation = true});
  OptimizerPlanner optimizer(plan, cell);
  for (std::int32_t step = 0; step < planned_steps(cell); ++step) {
    if (leaves_graphs(cell, step, last)) {
      training.run_eagerly(step);
    } else {
      training.run(step);
    }
    optimizer.run(step);
    if (validates_after(cell, step)) validation.run(step);
  }
  return plan;
}

/// The forward and backward graphs of all layers, and the micro-batches that leave them.
class CallablePairPlanner {
 public:
  CallablePairPlanner(const matrix::Cell& cell, int rank)
      : cell_(cell), chunks_(stage_chunks(cell, rank)), passes_(training_passes(cell, rank)) {}

  CoveragePlan plan() {
    for (const bool forward : {true, false}) {
      plan_.graphs.push_back({.forward = forward, .capture_step = 0});
    }
    OptimizerPlanner optimizer(plan_, cell_);
    for (std::int32_t step = 0; step < planned_steps(cell_); ++step) {
      for (const Pass& pass : passes_) {
        if (leaves_graphs(cell_, step, pass.microbatch)) {
          plan_eager({pass}, step, false);
          continue;
        }
        const std::int32_t graph = pass.forward ? 0 : 1;
        ++plan_.graphs[static_cast<std::size_t>(graph)].launches;
        plan_.executions.push_back({.step = step,
                                    .microbatch = pass.microbatch,
                                    .forward = pass.forward,
                                    .replayed = true,
                                    .graph = graph});
      }
      optimizer.run(step);
      if (validates_after(cell_, step)) plan_eager(validation_passes(cell_), step, true);
    }
    return std::move(plan_);
  }

 private:
  void plan_eager(const std::vector<Pass>& passes, std::int32_t step, bool validation) {
    for_each_layer(chunks_, passes, [&](const Pass& pass, std::int32_t layer) {
      plan_eager_layer(plan_, cell_, pass, layer, {.step = step, .validation = validation});
    });
  }

  const matrix::Cell& cell_;
  std::vector<LayerSpan> chunks_;
  std::vector<Pass> passes_;
  CoveragePlan plan_;
};

}  // namespace

bool captures_iterations(const matrix::Cell& cell) {
  return is_full_iteration(cell);
}

bool captures_callable_pair(const matrix::Cell& cell) {
  return takes_iterations(cell) && !is_full_iteration(cell);
}

bool captures_whole_step(const matrix::Cell& cell) {
  return is_full_iteration(cell) && cell.shape.capture_form == matrix::CaptureForm::whole_step;
}

bool captures_optimizer(const matrix::Cell& cell) {
  return cell.config.optimizer_cuda_graph && cell.config.cuda_graph_impl != CudaGraphImpl::none &&
         !captures_whole_step(cell);
}

bool runs_before_capture(const matrix::Cell& cell, std::string_view scope) {
  const bool by_its_count = takes_iterations(cell) || scope == optimizer_scope;
  return !by_its_count || cell.config.cuda_graph_warmup_steps > 0;
}

bool has_partial_batch(const matrix::Cell& cell, std::int32_t step) {
  return cell.shape.last_batch != matrix::LastBatch::full && step % 3 == 2;
}

bool leaves_graphs(const matrix::Cell& cell, std::int32_t step, std::int32_t microbatch) {
  return cell.shape.last_batch == matrix::LastBatch::eager && has_partial_batch(cell, step) &&
         microbatch == cell.config.num_microbatches - 1;
}

std::int32_t steps_of_full_batches(const matrix::Cell& cell, std::int32_t full) {
  return cell.shape.last_batch == matrix::LastBatch::full ? full : full + full / 2;
}

std::int32_t planned_steps(const matrix::Cell& cell) {
  constexpr std::int32_t replays_after_capture = 2;
  std::int32_t needed = 1;
  if (is_full_iteration(cell)) {
    const std::int32_t captured_at = std::max(cell.config.cuda_graph_warmup_steps, 0);
    needed = captured_at + 1 + replays_after_capture;
    needed = std::max(needed, cell.shape.eval_interval * (captured_at + 2));
  } else if (captures_callable_pair(cell) || cell.config.cuda_graph_impl == CudaGraphImpl::local) {
    const std::int32_t optimizer_warmup =
        captures_optimizer(cell) ? std::max(cell.config.cuda_graph_warmup_steps, 0) : 0;
    needed = optimizer_warmup + 1 + replays_after_capture;
  } else if (cell.config.cuda_graph_impl == CudaGraphImpl::transformer_engine) {
    needed = std::max(cell.config.cuda_graph_warmup_steps, 0) + 1 + replays_after_capture;
  }
  if (cell.shape.last_batch != matrix::LastBatch::full) {
    // One with a partial micro-batch after the capture, and a full one after it.
    needed = steps_of_full_batches(cell, needed) + 2;
  }
  return std::max(cell.shape.steps, needed);
}

CoveragePlan plan_coverage(const matrix::Cell& cell, int rank) {
  if (captures_callable_pair(cell)) return CallablePairPlanner(cell, rank).plan();
  if (is_full_iteration(cell)) {
    const bool parts = cell.shape.capture_form == matrix::CaptureForm::partitioned;
    return parts ? plan_parts(cell) : plan_full_iteration(cell);
  }
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

bool captures_elsewhere_only(const matrix::Cell& cell, int rank, GraphsOf graphs) {
  const auto captures = [&](int asked) {
    const CoveragePlan plan = plan_coverage(cell, asked);
    return std::any_of(plan.graphs.begin(), plan.graphs.end(), [&](const PlannedGraph& graph) {
      return graphs == GraphsOf::anything || graph.layer >= 0;
    });
  };
  if (cell.config.cuda_graph_impl == CudaGraphImpl::none || captures(rank)) return false;
  for (int other = 0; other < cell.ranks(); ++other) {
    if (captures(other)) return true;
  }
  return false;
}

std::string execution_text(const PlannedExecution& execution) {
  std::string text = fmt::format("step {}", execution.step);
  if (execution.validation) text += " validation";
  if (execution.scope == optimizer_scope) return text + " optimizer";
  if (execution.layer < 0 && execution.microbatch < 0) return text + " iteration";
  if (execution.layer < 0) {
    return text + fmt::format(" micro-batch {} layers {}", execution.microbatch,
                              workloads::pass_name(execution.forward, execution.wgrad));
  }
  return text + fmt::format(" micro-batch {} layer {}{}{} {}", execution.microbatch,
                            execution.layer, execution.scope.empty() ? "" : " ", execution.scope,
                            workloads::pass_name(execution.forward, execution.wgrad));
}

}  // namespace cgconform::suites

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "matrix/cell.hpp"

namespace cgconform::suites {

/// A graph that a cell's configuration asks for. -1 where layer or micro-batch do not apply.
struct PlannedGraph {
  std::int32_t layer = -1;
  std::int32_t microbatch = -1;
  bool forward = true;
  bool wgrad = false;  ///< of the weight gradients that a backward leaves; no forward then
  bool validation = false;
  bool optimizer = false;  ///< of the optimizer's step; layer and micro-batch do not apply
  std::int32_t capture_step = -1;
  std::uint64_t launches = 0;  ///< over the whole leg
  std::string scope{};         ///< modules of the layer; empty for the whole layer
  std::int32_t part = -1;      ///< of an iteration in parts, in order; -1 where it is whole
};

/// One execution of a layer, of a whole iteration (layer and micro-batch -1), or of the optimizer
/// (likewise, with the scope `optimizer`).
struct PlannedExecution {
  std::int32_t step = -1;
  std::int32_t microbatch = -1;
  std::int32_t layer = -1;
  bool forward = true;
  bool wgrad = false;  ///< as of PlannedGraph
  bool validation = false;
  bool replayed = false;
  std::int32_t graph = -1;  ///< index into CoveragePlan::graphs where replayed
  std::string scope;        ///< module of the layer; empty for the whole layer
  friend bool operator==(const PlannedExecution&, const PlannedExecution&) = default;
};

/// What a graph leg of a cell must capture and run on one rank, derived from the configuration and
/// the rules of its implementation alone, without the code that does it.
struct CoveragePlan {
  std::vector<PlannedGraph> graphs;          ///< in capture order
  std::vector<PlannedExecution> executions;  ///< in execution order
};

/// Scope of the optimizer's graph and executions.
constexpr std::string_view optimizer_scope = "optimizer";

/// True where a body of this scope has run eagerly before it is captured; an iteration or an
/// optimizer without warm-up has not.
bool runs_before_capture(const matrix::Cell& cell, std::string_view scope);

/// True where whole iterations are graphs, of one part or several.
bool captures_iterations(const matrix::Cell& cell);
/// True where all layers are one forward and one backward graph.
bool captures_callable_pair(const matrix::Cell& cell);
/// True where the graph of an iteration holds the optimizer's step too.
bool captures_whole_step(const matrix::Cell& cell);
/// True where the optimizer's step is a graph of its own, beside other graphs.
bool captures_optimizer(const matrix::Cell& cell);

/// True where the step's last micro-batch is partial.
bool has_partial_batch(const matrix::Cell& cell, std::int32_t step);
/// True where the micro-batch is partial and runs eagerly beside graphs.
bool leaves_graphs(const matrix::Cell& cell, std::int32_t step, std::int32_t microbatch);
/// Training steps after which so many had full micro-batches only.
std::int32_t steps_of_full_batches(const matrix::Cell& cell, std::int32_t full);

/// Training steps of a cell's legs: as many as its shape says, but enough that every training graph
/// is replayed in two further steps and the validation graph in one.
std::int32_t planned_steps(const matrix::Cell& cell);

/// The plan of rank `rank` of the gang. Rules, by implementation:
/// - `local`: the first step runs eagerly; at its end every selected layer of the stage, or each of
///   its selected pieces, gets a forward and a backward graph, in the order the step executed them.
///   With one pipeline stage a layer has one pair for all micro-batches, with more one pair for
///   each micro-batch. All later training steps replay; validation runs eagerly.
/// - `transformer_engine`: `cuda_graph_warmup_steps` eager steps; before the next one every layer
/// of
///   the stage gets a forward and a backward graph, in the order of the pipeline schedule: for one
///   micro-batch with one pipeline stage, for each with more. All later training steps replay. A
///   scope that names some of a layer's modules has those captured and the others run eagerly;
///   validation runs whole layers eagerly. With `delay_wgrad_compute` every backward is followed by
///   the weight gradients it leaves, which are a third graph where the backward is one.
/// - `full_iteration`: `cuda_graph_warmup_steps` eager iterations, then the next one is captured
/// and
///   replayed in the same step, as are all after it; validation likewise with its own count.
///   In the form `partitioned` a training iteration is one graph more than it has micro-batches.
///   In the form `callables` all layers have one forward and one backward graph, captured before
///   the first step, and every training micro-batch replays the two; validation runs eagerly.
/// With `optimizer_cuda_graph` the optimizer's step after each training iteration runs eagerly
/// `cuda_graph_warmup_steps` times, is captured and replayed in the next step, and replayed in all
/// after it.
/// With `last_batch` eager the last micro-batch of every third step runs eagerly: its layers, or
/// the whole iteration, which does not count as a call on the way to the capture. Throws
/// InternalError for implementations that are not built.
CoveragePlan plan_coverage(const matrix::Cell& cell, int rank);

/// Graphs of whatever kind, or of layers alone: not of whole iterations or of the optimizer.
enum class GraphsOf : std::uint8_t { anything, layers };

/// True where the rank is to have no such graph, as its stage has no layer in scope, and another
/// one of the gang is to have some.
bool captures_elsewhere_only(const matrix::Cell& cell, int rank,
                             GraphsOf graphs = GraphsOf::anything);

/// `step 2 micro-batch 1 layer 0 backward` in messages.
std::string execution_text(const PlannedExecution& execution);

}  // namespace cgconform::suites

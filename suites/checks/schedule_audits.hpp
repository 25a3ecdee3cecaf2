#pragma once

#include "suites/check.hpp"

/// What the schedule of a pipeline asks of the graphs of a leg.
namespace cgconform::suites::checks {

/// Cells whose iterations are captured with the transfers between stages.
bool captured_pipelines(const matrix::Cell& cell);
/// Cells whose layers are captured one by one, in a pipeline and anywhere.
bool layer_graphs_in_pipelines(const matrix::Cell& cell);
bool cells_with_layer_graphs(const matrix::Cell& cell);
/// Cells with ahead-of-time callables.
bool cells_with_callables(const matrix::Cell& cell);
/// Cells that give graphs to some of their layers only.
bool partly_graphed_cells(const matrix::Cell& cell);

/// COM-07: the iteration's graph sends and receives what the schedule moves between stages, and
/// equals eager, micro-batch by micro-batch.
CheckResult judge_captured_transfers(JudgeContext& context);
/// COM-08: no graph of a layer communicates, and all that stages exchange equals eager.
CheckResult judge_eager_transfers(JudgeContext& context);
/// CON-17: a layer has graphs for as many micro-batches as the schedule keeps apart, captured in
/// the order in which each step replays them, and none of them touches the input of another.
CheckResult judge_captured_microbatches(JudgeContext& context);
/// MEM-06: callables have as many static inputs as micro-batches are in flight.
CheckResult judge_static_inputs(JudgeContext& context);
/// NUM-24: the layers asked for have graphs, the others have none, and training equals eager.
CheckResult judge_partial_capture(JudgeContext& context);
/// TLG-02: captures of one body have one topology: for every micro-batch and layer, in another leg,
/// and on the replicas of a stage.
CheckResult judge_topology(JudgeContext& context);

}  // namespace cgconform::suites::checks

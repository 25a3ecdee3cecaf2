#pragma once

#include "suites/check.hpp"

/// Scenarios of a gang: collectives on communicators of their own, eager and captured.
namespace cgconform::suites::checks {

/// COM-05: collectives captured on several branches are joined pair by pair by paths, and right.
CheckResult judge_order_on_one_communicator(ScenarioContext& context);

/// COM-11: two graphs on two communicators, which the last rank is about to launch in the opposite
/// order, are reported before anything is launched; in one order they are launched and right.
CheckResult judge_opposite_order(ScenarioContext& context);

/// COM-12: one communicator used eagerly, from a graph, eagerly and from a graph.
CheckResult judge_eager_and_graph_in_turn(ScenarioContext& context);

/// The same as COM-11 with the opposite order as a fault: fails with what the ledger says.
CheckResult launch_in_opposite_order(ScenarioContext& context);
/// Its control: both ranks launch in one order.
CheckResult launch_in_one_order(ScenarioContext& context);

/// Control: ranks replay a graph that communicates with nobody as often as they like.
CheckResult replay_unequally_without_communicator(ScenarioContext& context);

}  // namespace cgconform::suites::checks

#include "suites/checks/leg_choice.hpp"

#include "suites/cell_plan.hpp"
#include "suites/leg_set.hpp"

namespace cgconform::suites::checks {

using workloads::LegRequest;

bool always(const matrix::Cell& /*cell*/) {
  return true;
}

bool graph_cells(const matrix::Cell& cell) {
  return is_graph_cell(cell);
}

bool graph_cells_with_dropout(const matrix::Cell& cell) {
  return is_graph_cell(cell) &&
         (cell.config.hidden_dropout > 0.0F || cell.config.attention_dropout > 0.0F);
}

bool graph_gangs(const matrix::Cell& cell) {
  return is_graph_cell(cell) && cell.ranks() > 1;
}

bool graph_cells_with_validation(const matrix::Cell& cell) {
  return is_graph_cell(cell) && cell.shape.eval_interval > 0;
}

bool cells_with_accumulation(const matrix::Cell& cell) {
  return cell.config.num_microbatches >= 3;
}

std::vector<std::pair<LegRequest, LegRequest>> compared_pairs(const matrix::Cell& cell) {
  if (!is_graph_cell(cell)) return {{eager_leg(), eager_repeat_leg()}};
  return {{eager_leg(), graph_leg()}, {instrumented_eager_leg(), instrumented_graph_leg()}};
}

std::vector<LegRequest> compared_legs(const matrix::Cell& cell) {
  std::vector<LegRequest> legs{eager_leg(), eager_repeat_leg()};
  for (const auto& [expected, actual] : compared_pairs(cell)) {
    legs.push_back(expected);
    legs.push_back(actual);
  }
  return legs;
}

std::vector<LegRequest> instrumented_pair(const matrix::Cell& /*cell*/) {
  return {instrumented_eager_leg(), instrumented_graph_leg()};
}

std::vector<LegRequest> graph_legs(const matrix::Cell& /*cell*/) {
  return {graph_leg(), instrumented_graph_leg()};
}

std::vector<LegRequest> repeated_graph_legs(const matrix::Cell& /*cell*/) {
  return {graph_leg(), timed_graph_leg()};
}

}  // namespace cgconform::suites::checks

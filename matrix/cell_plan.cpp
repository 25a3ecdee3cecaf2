#include "matrix/cell_plan.hpp"

#include <utility>

#include <fmt/format.h>

#include "matrix/error.hpp"
#include "matrix/pairwise.hpp"

namespace cgconform::matrix {
namespace {

constexpr std::string_view filter_place = "--filter";

/// Legs a cell runs at least: eager and graph, each with a repeat.
constexpr std::uint64_t legs_per_cell = 4;

}  // namespace

void PlanTotals::count(const Classification& classification) {
  ++total;
  switch (classification.status) {
    case CellStatus::run:
      ++run;
      if (classification.kind == CellKind::baseline) ++baseline;
      break;
    case CellStatus::refused:
      ++refused;
      for (const RuleIndex rule : classification.rules) {
        ++refused_by_rule[std::string(rule_id(rule))];
      }
      break;
    case CellStatus::skipped: {
      ++skipped;
      std::string reason(skip_name(classification.skip));
      if (classification.feature != nullptr) {
        reason += fmt::format(": {}", classification.feature->name);
      }
      ++skipped_by_reason[std::move(reason)];
      break;
    }
  }
}

std::string totals_line(const PlanTotals& totals) {
  return fmt::format("total {} = run {} ({} baseline) + refused {} + skipped {}", totals.total,
                     totals.run, totals.baseline, totals.refused, totals.skipped);
}

CellPlan::CellPlan(Matrix matrix, const PlanOptions& options)
    : expansion_(std::move(matrix)), options_(options) {
  if (!options_.filter.empty()) {
    filter_ = Filter::compile(options_.filter, expansion_.matrix().axes, filter_place);
  }
  if (expansion_.matrix().strategy.kind == Strategy::Kind::t_wise) {
    CellClassifier judge(
        expansion_, [this](std::span<const std::uint32_t> at) { return expansion_.admits(at); },
        options_.device);
    chosen_ = pairwise_cells(expansion_, judge, options_.seed);
  }
  refuse_empty();
}

bool CellPlan::selects(std::span<const std::uint32_t> coordinates) const {
  return (!filter_ || filter_->selects(coordinates)) && expansion_.admits(coordinates);
}

CellClassifier CellPlan::classifier() const {
  // The filter picks among the cells that pairwise chose, none of which is a duplicate; to judge
  // them as they were chosen, only include and exclude count.
  const bool filtered = !chosen_.has_value();
  return CellClassifier(
      expansion_,
      [this, filtered](std::span<const std::uint32_t> at) {
        return filtered ? selects(at) : expansion_.admits(at);
      },
      options_.device);
}

void CellPlan::for_each(const std::function<bool(const Entry&)>& visit) const {
  CellClassifier judge = classifier();
  Coordinates at;
  const std::uint64_t count = chosen_ ? chosen_->size() : expansion_.size();
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t index = chosen_ ? (*chosen_)[i] : i;
    expansion_.coordinates(index, at);
    if (!selects(at)) continue;
    const Classification& classification = judge.classify(at);
    if (!visit({index, at, classification, judge.cell(), judge.normalised()})) return;
  }
}

PlanTotals CellPlan::totals() const {
  PlanTotals totals;
  for_each([&](const Entry& entry) {
    totals.count(entry.classification);
    return true;
  });
  return totals;
}

std::string CellPlan::skip_reason(const Classification& classification) const {
  return skip_text(classification, expansion_, options_.device);
}

void CellPlan::refuse_empty() const {
  const auto any = [&](const auto& passes) {
    Coordinates at;
    const std::uint64_t count = chosen_ ? chosen_->size() : expansion_.size();
    for (std::uint64_t i = 0; i < count; ++i) {
      expansion_.coordinates(chosen_ ? (*chosen_)[i] : i, at);
      if (expansion_.admits(at) && passes(at)) return true;
    }
    return false;
  };
  if (any([&](std::span<const std::uint32_t> at) { return !filter_ || filter_->selects(at); })) {
    return;
  }
  const Matrix& matrix = expansion_.matrix();
  if (chosen_ && chosen_->empty()) {
    throw InputError(fmt::format(
        "{}, strategy: every cell is refused or excluded, so pairwise has none to choose; "
        "'exhaustive' lists the reasons",
        matrix.source));
  }
  if (!any([](std::span<const std::uint32_t>) { return true; })) {
    throw InputError(fmt::format("{}: include and exclude select none of the {} cells; loosen one",
                                 matrix.source, expansion_.size()));
  }
  std::string reason = "no cell passes all of its parts together";
  if (filter_->conjuncts().empty()) reason = "no cell passes it";
  for (const Filter& part : filter_->conjuncts()) {
    if (!any([&](std::span<const std::uint32_t> at) { return part.selects(at); })) {
      reason = fmt::format("'{}' excludes every cell", part.text());
      break;
    }
  }
  throw InputError(fmt::format("{}: '{}' selects no cell of matrix {}: {}; `--list` shows them",
                               filter_place, filter_->text(), matrix.name, reason));
}

std::uint64_t cell_cost(const Cell& cell) {
  return static_cast<std::uint64_t>(cell.config.num_layers) *
         static_cast<std::uint64_t>(cell.config.num_microbatches) *
         static_cast<std::uint64_t>(cell.shape.steps) * legs_per_cell;
}

}  // namespace cgconform::matrix

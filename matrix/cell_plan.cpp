#include "matrix/cell_plan.hpp"

#include <algorithm>
#include <random>
#include <utility>

#include <fmt/format.h>

#include "matrix/covering_array.hpp"
#include "matrix/error.hpp"
#include "matrix/value_tuples.hpp"

namespace cgconform::matrix {
namespace {

constexpr std::string_view filter_place = "--filter";

/// Legs a cell runs at least: eager and graph, each with a repeat.
constexpr std::uint64_t legs_per_cell = 4;

/// Cells that coverage chooses its order from, of more, as many by chance; and cells that are put
/// into a shuffled order by themselves, of more, by their places in the product.
constexpr std::size_t most_ordered_cells = std::size_t{1} << 20U;

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
  if (!options_.ids.empty()) {
    choose_ids();
  } else if (expansion_.matrix().strategy.kind == Strategy::Kind::t_wise) {
    CellClassifier judge(
        expansion_, [this](std::span<const std::uint32_t> at) { return expansion_.admits(at); },
        options_.device, options_.gpus_shared, options_.lifted);
    chosen_ = covering_cells(expansion_, judge, options_.seed);
  }
  if (!options_.allow_empty) refuse_empty();
  if (options_.coverage_first) put_coverage_first();
}

void CellPlan::choose_ids() {
  std::vector<std::uint64_t>& indexes = chosen_.emplace();
  for (const std::string& id : options_.ids) {
    const auto index = expansion_.find(id);
    if (!index) {
      throw InputError(fmt::format("matrix {} has no cell {}", expansion_.matrix().name, id));
    }
    indexes.push_back(*index);
  }
  std::sort(indexes.begin(), indexes.end());
  indexes.erase(std::unique(indexes.begin(), indexes.end()), indexes.end());
}

bool CellPlan::selects(std::span<const std::uint32_t> coordinates) const {
  return (!filter_ || filter_->selects(coordinates)) && expansion_.admits(coordinates);
}

bool CellPlan::in_shard(std::span<const std::uint32_t> coordinates) const {
  if (options_.shard.count == 1) return true;
  fmt::memory_buffer id;
  append_id(expansion_.axes(), coordinates, id);
  return options_.shard.holds(hash_id({id.data(), id.size()}));
}

CellClassifier CellPlan::classifier() const {
  // A shard takes no part in this: a cell that equals one of another shard is run there.
  if (!options_.ids.empty()) {
    return CellClassifier(
        expansion_,
        [this](std::span<const std::uint32_t> at) {
          return selects(at) &&
                 std::binary_search(chosen_->begin(), chosen_->end(), expansion_.index_of(at));
        },
        options_.device, options_.gpus_shared, options_.lifted);
  }
  // The filter picks among the cells that the strategy chose, none of which is a duplicate; to
  // judge them as they were chosen, only include and exclude count.
  const bool filtered = !chosen_.has_value();
  return CellClassifier(
      expansion_,
      [this, filtered](std::span<const std::uint32_t> at) {
        return filtered ? selects(at) : expansion_.admits(at);
      },
      options_.device, options_.gpus_shared, options_.lifted);
}

void CellPlan::walk(std::uint64_t round,
                    const std::function<bool(std::uint64_t, const Coordinates&)>& visit) const {
  Coordinates at;
  const auto visit_selected = [&](std::uint64_t index) {
    expansion_.coordinates(index, at);
    return !selects(at) || !in_shard(at) || visit(index, at);
  };
  if (!chosen_ && !options_.shuffle) {
    for (auto next = next_selected(0, at); next; next = next_selected(*next + 1, at)) {
      if (in_shard(at) && !visit(*next, at)) return;
    }
    return;
  }
  const std::optional<std::vector<std::uint64_t>> few = chosen_ ? chosen_ : few_selected();
  const std::uint64_t count = few ? few->size() : expansion_.size();
  const ShuffledOrder shuffled(count, round_seed(options_.seed, round));
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t place = options_.shuffle ? shuffled[i] : i;
    if (!visit_selected(few ? (*few)[place] : place)) return;
  }
}

std::optional<std::uint64_t> CellPlan::next_selected(std::uint64_t index, Coordinates& at) const {
  return expansion_.next_admitted(index, at, filter_ ? &*filter_ : nullptr);
}

std::optional<std::vector<std::uint64_t>> CellPlan::few_selected() const {
  std::vector<std::uint64_t> selected;
  Coordinates at;
  for (auto next = next_selected(0, at); next; next = next_selected(*next + 1, at)) {
    if (selected.size() == most_ordered_cells) return std::nullopt;
    selected.push_back(*next);
  }
  return selected;
}

void CellPlan::put_coverage_first() {
  CellClassifier judge = classifier();
  std::vector<std::uint64_t> running;
  std::uint64_t seen = 0;
  std::mt19937_64 random(options_.seed);
  walk(1, [&](std::uint64_t index, const Coordinates& at) {
    if (judge.classify(at).status != CellStatus::run) return true;
    ++seen;
    if (running.size() < most_ordered_cells) {
      running.push_back(index);
    } else if (const std::uint64_t place = random() % seen; place < running.size()) {
      running[place] = index;
    }
    return true;
  });
  const TupleNumbers pairs(expansion_, 2);
  std::vector<bool> covered(pairs.count(), false);
  front_ = order_by_gain(expansion_, pairs, running, covered);
  front_sorted_ = front_;
  std::sort(front_sorted_.begin(), front_sorted_.end());
}

void CellPlan::for_each(const std::function<bool(const Entry&)>& visit, std::uint64_t round) const {
  CellClassifier judge = classifier();
  const auto visit_cell = [&](std::uint64_t index, const Coordinates& at) {
    const Classification& classification = judge.classify(at);
    return visit({index, at, classification, judge.cell(), judge.normalised()});
  };
  Coordinates at;
  for (const std::uint64_t index : front_) {
    expansion_.coordinates(index, at);
    if (!visit_cell(index, at)) return;
  }
  walk(round, [&](std::uint64_t index, const Coordinates& coordinates) {
    const bool at_front = std::binary_search(front_sorted_.begin(), front_sorted_.end(), index);
    return at_front || visit_cell(index, coordinates);
  });
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
  const auto any = [&](const Filter* filter) {
    Coordinates at;
    if (!chosen_) return expansion_.next_admitted(0, at, filter).has_value();
    return std::any_of(chosen_->begin(), chosen_->end(), [&](std::uint64_t index) {
      expansion_.coordinates(index, at);
      return expansion_.admits(at) && (filter == nullptr || filter->selects(at));
    });
  };
  if (any(filter_ ? &*filter_ : nullptr)) return;
  const Matrix& matrix = expansion_.matrix();
  if (chosen_ && chosen_->empty()) {
    throw InputError(fmt::format(
        "{}, strategy: every cell is refused or excluded, so the strategy has none to choose; "
        "'exhaustive' lists the reasons",
        matrix.source));
  }
  if (!any(nullptr)) {
    throw InputError(fmt::format("{}: include and exclude select none of the {} cells; loosen one",
                                 matrix.source, expansion_.size()));
  }
  std::string reason = "no cell passes all of its parts together";
  if (filter_->conjuncts().empty()) reason = "no cell passes it";
  for (const Filter& part : filter_->conjuncts()) {
    if (!any(&part)) {
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

#include "suites/checks/selection_checks.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "matrix/error.hpp"

namespace cgconform::suites::checks {
namespace {

using matrix::Matrix;
using matrix::PlanOptions;

constexpr std::string_view axes = R"({"name": "selection",
  "axes": {"impl": ["none", "local"], "scope": ["layer", "attn", "mlp", "full_iteration"],
           "pp": [1, 2], "pool": ["shared", "separate"], "dtype": ["fp32", "fp64"]},
  "defaults": {"use_te_rng_tracker": true, "te_rng_tracker": true, "check_for_nan_in_loss": false,
               "check_for_nan_in_grad": false, "check_for_nan_in_loss_and_grad": false},
  "strategy": ")";

Matrix matrix_with(std::string_view strategy) {
  return matrix::read_matrix(fmt::format("{}{}\"}}", axes, strategy), "selection");
}

CheckResult wrong(std::string detail) {
  return {.verdict = Verdict::fail_suite, .detail = std::move(detail)};
}

std::set<std::string> as_set(const std::vector<std::string>& ids) {
  return {ids.begin(), ids.end()};
}

constexpr std::string_view chosen_filter = "impl=local & pp=1";

PlanOptions options_of(std::string_view filter, bool shuffle = false, bool coverage_first = false) {
  PlanOptions options;
  options.filter = filter;
  options.seed = 5;
  options.shuffle = shuffle;
  options.coverage_first = coverage_first;
  return options;
}

/// Shards that together are the list and share no cell.
std::optional<std::string> partition_problem(Selector select, const Matrix& matrix,
                                             const PlanOptions& options) {
  const auto all = select(matrix, options, 1);
  for (const std::uint32_t count : {2U, 3U, 5U}) {
    std::set<std::string> seen;
    std::size_t cells = 0;
    for (std::uint32_t index = 1; index <= count; ++index) {
      PlanOptions part = options;
      part.shard = {index, count};
      const auto ids = select(matrix, part, 1);
      cells += ids.size();
      seen.insert(ids.begin(), ids.end());
    }
    if (cells != all.size() || seen != as_set(all)) {
      return fmt::format("{} shards hold {} cells, {} different ones, of {}", count, cells,
                         seen.size(), all.size());
    }
  }
  return std::nullopt;
}

std::optional<std::string> filter_problem(Selector select, const Matrix& matrix) {
  const auto all = as_set(select(matrix, options_of(""), 1));
  auto both = select(matrix, options_of(chosen_filter), 1);
  if (both.empty() || both.size() == all.size()) return "a filter selects none or all of the cells";
  for (const std::string& id : both) {
    if (!id.starts_with("impl=local/") || id.find("/pp=2") != std::string::npos) {
      return fmt::format("the filter '{}' selects {}", chosen_filter, id);
    }
  }
  const auto rest = select(matrix, options_of(fmt::format("!({})", chosen_filter)), 1);
  both.insert(both.end(), rest.begin(), rest.end());
  if (both.size() != all.size() || as_set(both) != all) {
    return "a filter and its opposite are not all cells";
  }
  PlanOptions part = options_of("");
  part.shard = {1, 3};
  const auto shard = as_set(select(matrix, part, 1));
  part.filter = chosen_filter;
  for (const std::string& id : select(matrix, part, 1)) {
    if (!shard.contains(id)) return fmt::format("a filter moves {} to another shard", id);
  }
  return std::nullopt;
}

std::optional<std::string> order_problem(Selector select, const Matrix& matrix) {
  const auto plain = select(matrix, options_of(""), 1);
  if (select(matrix, options_of(""), 1) != plain)
    return "the list changes from one time to the next";
  if (as_set(plain).size() != plain.size()) return "the list names a cell twice";
  const auto shuffled = select(matrix, options_of("", true), 1);
  if (shuffled == plain) return "shuffling leaves the order as it is";
  if (as_set(shuffled) != as_set(plain)) return "shuffling changes the cells";
  if (select(matrix, options_of("", true), 1) != shuffled)
    return "a shuffled order is not repeated";
  const auto second = select(matrix, options_of("", true), 2);
  if (second == shuffled) return "the second round has the order of the first";
  if (as_set(second) != as_set(plain)) return "the second round has other cells";
  const auto covered = select(matrix, options_of("", false, true), 1);
  if (as_set(covered) != as_set(plain)) return "best coverage first changes the cells";
  return std::nullopt;
}

}  // namespace

std::vector<std::string> selected_ids(const Matrix& matrix, const PlanOptions& options,
                                      std::uint64_t round) {
  const matrix::CellPlan plan(matrix, options);
  std::vector<std::string> ids;
  plan.for_each(
      [&](const matrix::CellPlan::Entry& entry) {
        ids.push_back(plan.expansion().name(entry.index).id);
        return true;
      },
      round);
  return ids;
}

CheckResult judge_selection_by(Selector select) {
  const Matrix exhaustive = matrix_with("exhaustive");
  if (const auto problem = filter_problem(select, exhaustive)) return wrong(*problem);
  if (const auto problem = order_problem(select, exhaustive)) return wrong(*problem);
  int partitions = 0;
  for (const std::string_view strategy : {"exhaustive", "pairwise", "t-wise:3"}) {
    for (const std::string_view filter : {std::string_view{}, chosen_filter}) {
      for (const bool shuffle : {false, true}) {
        for (const bool coverage_first : {false, true}) {
          ++partitions;
          const auto problem = partition_problem(select, matrix_with(strategy),
                                                 options_of(filter, shuffle, coverage_first));
          if (problem) return wrong(fmt::format("{}: {}", strategy, *problem));
        }
      }
    }
  }
  return {.detail = fmt::format("filters, orders and rounds keep the cells, shards of {} lists "
                                "partition them",
                                partitions)};
}

CheckResult judge_empty_selection_by(Selector select) {
  const Matrix matrix = matrix_with("exhaustive");
  PlanOptions nothing = options_of("impl=none & impl=local");
  bool refused = false;
  try {
    select(matrix, nothing, 1);
  } catch (const InputError&) {
    refused = true;
  }
  if (!refused) return wrong("a selection without a cell is no error");
  nothing.allow_empty = true;
  if (!select(matrix, nothing, 1).empty()) return wrong("an empty selection has cells");
  for (const Matrix& listed : {matrix::load_matrix("smoke"), matrix_with("pairwise")}) {
    const matrix::CellPlan plan(listed, {});
    std::optional<std::string> silent;
    plan.for_each([&](const matrix::CellPlan::Entry& entry) {
      const bool skipped = entry.classification.status == matrix::CellStatus::skipped;
      if (skipped && plan.skip_reason(entry.classification).empty()) {
        silent = plan.expansion().name(entry.index).id;
      }
      return true;
    });
    if (silent) return wrong(fmt::format("{} is skipped without a reason", *silent));
    const matrix::PlanTotals totals = plan.totals();
    std::uint64_t counted = 0;
    for (const auto& [reason, cells] : totals.skipped_by_reason) counted += cells;
    if (counted != totals.skipped) return wrong("the skips by reason are not all skips");
  }
  return {.detail = "an empty selection is an error unless allowed, and every skip has its reason"};
}

CheckResult judge_selection(ScenarioContext& /*context*/) {
  return judge_selection_by(selected_ids);
}

CheckResult judge_empty_selection(ScenarioContext& /*context*/) {
  return judge_empty_selection_by(selected_ids);
}

}  // namespace cgconform::suites::checks

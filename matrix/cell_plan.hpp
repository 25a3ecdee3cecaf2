#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "matrix/cell_classifier.hpp"
#include "matrix/cell_order.hpp"
#include "matrix/expansion.hpp"

namespace cgconform::matrix {

struct PlanOptions {
  std::string filter;      ///< expression of the command line; empty for all cells
  std::uint64_t seed = 0;  ///< of the choices a strategy makes, and of the order
  TargetDevice device = TargetDevice::reference;
  bool gpus_shared = false;        ///< ranks of the run share GPUs
  std::vector<std::string> ids{};  ///< of the cells to take, whatever the strategy; empty for all
  Shard shard{};
  bool shuffle = false;
  bool coverage_first = false;  ///< the cells that run, those first that add most pairs of values
  bool allow_empty = false;     ///< no error where nothing is selected
  std::vector<std::string> lifted{};  ///< ids of rules that refuse no cell
};

/// Counts over the cells of a plan: `total = run + refused + skipped`.
struct PlanTotals {
  std::uint64_t total = 0;
  std::uint64_t run = 0;
  std::uint64_t baseline = 0;  ///< of the run cells, those without graphs
  std::uint64_t refused = 0;
  std::uint64_t skipped = 0;
  std::map<std::string, std::uint64_t> refused_by_rule;  ///< a cell counts under each of its rules
  std::map<std::string, std::uint64_t> skipped_by_reason;

  void count(const Classification& classification);
};

/// `total 48 = run 24 (6 baseline) + refused 16 + skipped 8`.
std::string totals_line(const PlanTotals& totals);

/// The cells chosen from a matrix by include and exclude, strategy and filter, classified on the
/// way. Nothing is kept for each cell, so a plan of millions is walked in flat memory.
class CellPlan {
 public:
  /// One cell on the walk; valid during the visit.
  struct Entry {
    std::uint64_t index;
    const Coordinates& coordinates;
    const Classification& classification;
    const Cell& cell;        ///< as written
    const Cell& normalised;  ///< as it runs
  };

  /// Throws InputError for a bad filter and where no cell is selected, naming the part of the
  /// filter that excludes every cell where one alone does.
  CellPlan(Matrix matrix, const PlanOptions& options);

  const Expansion& expansion() const { return expansion_; }
  TargetDevice device() const { return options_.device; }
  bool gpus_shared() const { return options_.gpus_shared; }

  /// Visits the selected cells. Their order is by index under `exhaustive`, by falling gain of
  /// coverage under a strategy that chooses, and by seed where it is shuffled: each round by its
  /// own. With coverage first, the cells that run stand at the front as long as each adds a pair of
  /// values; all others follow. Ends early where `visit` returns false.
  void for_each(const std::function<bool(const Entry&)>& visit, std::uint64_t round = 1) const;

  PlanTotals totals() const;

  /// The reason of a skip for people.
  std::string skip_reason(const Classification& classification) const;

 private:
  bool selects(std::span<const std::uint32_t> coordinates) const;
  bool in_shard(std::span<const std::uint32_t> coordinates) const;
  /// Cells of which an equal one is a duplicate.
  CellClassifier classifier() const;
  void choose_ids();
  void put_coverage_first();
  /// Calls `visit` with the index and the coordinates of each selected cell in the base order.
  void walk(std::uint64_t round,
            const std::function<bool(std::uint64_t, const Coordinates&)>& visit) const;
  void refuse_empty() const;
  /// The next cell that include, exclude and the filter let in.
  std::optional<std::uint64_t> next_selected(std::uint64_t index, Coordinates& at) const;
  /// All of those; nothing where they are too many to keep.
  std::optional<std::vector<std::uint64_t>> few_selected() const;

  Expansion expansion_;
  PlanOptions options_;
  std::optional<Filter> filter_;
  std::optional<std::vector<std::uint64_t>> chosen_;  ///< by ids or by a strategy that chooses
  std::vector<std::uint64_t> front_;                  ///< that coverage puts first
  std::vector<std::uint64_t> front_sorted_;
};

/// Relative cost of a cell: layers times micro-batches times steps, over its eager and graph legs
/// and their repeats, on all of its ranks together.
std::uint64_t cell_cost(const Cell& cell);

}  // namespace cgconform::matrix

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "matrix/built_features.hpp"
#include "matrix/cell.hpp"
#include "matrix/constraint_engine.hpp"

namespace cgconform::matrix {

/// What becomes of a cell: `total = run + refused + skipped`.
enum class CellStatus : std::uint8_t { run, refused, skipped };

/// Whether a cell judges a graph against eager, or eager against eager.
enum class CellKind : std::uint8_t { graph, baseline };

/// Why a cell is skipped before it is run.
enum class SkipReason : std::uint8_t {
  none,
  duplicate,         ///< equal after normalisation to an earlier selected cell
  no_device_effect,  ///< equal to an earlier one because the device lacks what differs
  captures_nothing,  ///< no layer of the model lies in the scope
  not_built,
  over_rank_limit,  ///< needs more ranks than the matrix allows
  too_few_ranks,    ///< needs more ranks than the run has
  shared_gpu,       ///< needs a GPU for each rank, and ranks share them
};

/// The verdict on one cell before it runs.
struct Classification {
  CellStatus status = CellStatus::run;
  CellKind kind = CellKind::graph;
  std::vector<RuleIndex> rules;   ///< all violated rules of a refused cell, in the table's order
  std::vector<RuleIndex> lifted;  ///< rules the cell violates whose guard is lifted
  SkipReason skip = SkipReason::none;
  std::uint64_t same_as = 0;         ///< index of the equal earlier cell
  const Feature* feature = nullptr;  ///< what is not built
  std::int32_t ranks_needed = 0;
  std::int32_t ranks_allowed = 0;  ///< of over_rank_limit and too_few_ranks
};

/// Short name of a skip reason, the key under which totals count it.
std::string_view skip_name(SkipReason reason);

class Expansion;

/// The reason of a skip for people: `duplicate of ID`, `not built yet: FEATURE`; empty without one.
std::string skip_text(const Classification& classification, const Expansion& expansion,
                      TargetDevice device);

/// The skip a cell gets at scheduling on `ranks` ranks; `run` where they suffice.
Classification classify_ranks(const Cell& cell, std::int32_t ranks);

}  // namespace cgconform::matrix

#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "matrix/classification.hpp"
#include "matrix/equal_cells.hpp"
#include "matrix/expansion.hpp"

namespace cgconform::matrix {

/// Classifies cells of one matrix under the ruleset `cgconform`, one after the other and in any
/// order, in memory that does not grow with their number. Not thread-safe: it reuses its buffers.
class CellClassifier {
 public:
  /// True where a cell takes part in the run; a duplicate is one of a cell that does.
  using Selects = std::function<bool(std::span<const std::uint32_t>)>;

  /// `gpus_shared`: ranks of the run share GPUs, so that what needs peer transports is skipped.
  /// Cells are not refused by the rules of the ids in `lifted`.
  CellClassifier(const Expansion& expansion, Selects selects, TargetDevice device,
                 bool gpus_shared = false, std::vector<std::string> lifted = {});

  /// Valid until the next call.
  const Classification& classify(std::uint64_t index);
  const Classification& classify(std::span<const std::uint32_t> coordinates);

  /// The cell classified last, as written and as it runs (normalised).
  const Cell& cell() const { return cell_; }
  const Cell& normalised() const { return normalised_; }

 private:
  /// Rules, features and limits, without a look at other cells.
  void judge_alone(std::span<const std::uint32_t> coordinates);
  void look_for_equal(std::span<const std::uint32_t> coordinates);
  bool is_lifted(RuleIndex rule) const;
  bool is_equal_and_runs(std::span<const std::uint32_t> coordinates, std::uint64_t index);

  /// What was found out about a cell that others may equal.
  struct Remembered {
    std::uint64_t index = UINT64_MAX;
    bool runs = false;
    Cell canonical;
  };

  const Expansion& expansion_;
  Selects selects_;
  TargetDevice device_;
  bool gpus_shared_;
  std::vector<std::string> lifted_;
  EqualCells equal_cells_;
  Evaluation evaluation_;
  Cell cell_;
  Cell normalised_;
  Cell canonical_;
  Classification result_;
  Coordinates coordinates_;
  Coordinates candidate_;
  std::vector<Remembered> remembered_;
};

}  // namespace cgconform::matrix

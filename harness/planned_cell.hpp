#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "matrix/cell.hpp"
#include "matrix/cell_environment.hpp"
#include "reports/report_writer.hpp"
#include "suites/result_record.hpp"

namespace cgconform::harness {

/// A cell that is to run, with all that its attempts need beyond the run's options.
struct PlannedCell {
  matrix::CellName name;
  matrix::Cell cell;
  int ranks = 1;                    ///< that its gang needs
  bool baseline = false;            ///< eager against eager
  bool fresh = false;               ///< in workers that have run nothing
  bool exclusive = false;           ///< with no other cell beside it
  std::vector<std::string> faults;  ///< ids of the fault switches to turn on
  std::vector<std::string> lifted;  ///< rules whose guard is off for this cell
  int fault_rank = -1;              ///< of the gang, the only one with the faults; -1 for all
  std::string sabotage;
  std::string mishap;           ///< mock behaviour in a phase of a true cell; empty for none
  std::string mock;             ///< behaviour of a mock cell; empty for a cell of a matrix
  double deadline_scale = 0.0;  ///< in place of the run's; 0 for the run's
  std::string guard_pages;      ///< in place of the run's; empty for the run's
  std::string scenario;         ///< which scenarios to run; empty for a cell
  std::uint64_t round = 0;      ///< of a run that repeats its cells, from 1 on; 0 in any other
  std::optional<std::uint64_t> seed;       ///< in place of the run's
  matrix::ProcessEnvironment environment;  ///< that its workers are started with
};

/// What a source of cells gives next: a cell to run, or one that was refused or skipped.
using SourceItem = std::variant<PlannedCell, suites::CellResult>;

/// The cells of a run, one after the other.
class CellSource {
 public:
  virtual ~CellSource() = default;
  virtual const reports::PlannedCounts& counts() const = 0;
  /// Empty after the last one.
  virtual std::optional<SourceItem> next() = 0;
  /// The run starts no further cell: a source that would go on for ever may end.
  virtual void stop() {}
};

}  // namespace cgconform::harness

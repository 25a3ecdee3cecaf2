#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "matrix/cell.hpp"
#include "suites/comparison.hpp"
#include "suites/result_record.hpp"
#include "workloads/training/leg_record.hpp"
#include "workloads/training/leg_request.hpp"

namespace cgconform::suites {

/// The legs that checks ask for, by what they are used for.
workloads::LegRequest eager_leg();
workloads::LegRequest eager_repeat_leg();
workloads::LegRequest graph_leg();
workloads::LegRequest instrumented_eager_leg();
workloads::LegRequest instrumented_graph_leg();
/// A second capture of the same bodies, timed, and watched by nothing else.
workloads::LegRequest timed_graph_leg();
/// The graph leg with its validation steps left out.
workloads::LegRequest unvalidated_graph_leg();
workloads::LegRequest eager_leg_without_recompute();
workloads::LegRequest graph_leg_without_recompute();
/// Legs of so many steps; the graph leg with another warm-up than the cell's.
workloads::LegRequest eager_leg_of(std::int32_t steps);
workloads::LegRequest graph_leg_of(std::int32_t steps, std::int32_t warmup_steps);
/// Captures, replays and destroys again and again, to see what is left behind.
workloads::LegRequest cycle_leg();
/// The graph leg with separate pools where the cell shares one, and vice versa.
workloads::LegRequest other_pools_leg();
/// `eager`, `eager repeat`, `graph instrumented`, ...: a leg in messages.
std::string leg_name(const workloads::LegRequest& request);

/// What a leg left behind, and where it was run.
struct SourcedLeg {
  // NOLINTNEXTLINE(google-explicit-constructor): a record is a leg that the cell ran itself
  SourcedLeg(workloads::LegRecord ran) : SourcedLeg(share(std::move(ran))) {}
  explicit SourcedLeg(std::shared_ptr<const workloads::LegRecord> kept, std::string cell = {})
      : record(std::move(kept)), from(std::move(cell)) {}

  std::shared_ptr<const workloads::LegRecord> record;
  std::string from;  ///< id of the cell that ran it; empty for the cell itself

 private:
  static std::shared_ptr<const workloads::LegRecord> share(workloads::LegRecord record) {
    return std::make_shared<const workloads::LegRecord>(std::move(record));
  }
};

/// The state of a leg on this rank and its peers.
struct LegState {
  SourcedLeg leg{workloads::LegRecord{}};
  bool ran = false;                       ///< false where an earlier leg failed on some rank
  std::string peer_error;                 ///< of the first rank that failed, other than this one
  std::vector<std::uint64_t> topologies;  ///< of the leg's graphs, by rank of the gang
  const workloads::LegRecord& record() const { return *leg.record; }
  bool complete() const { return ran && record().error.empty() && peer_error.empty(); }
};

/// One observation that both legs made, or only one of them. `where` is of a leg's record.
struct ObservationOutcome {
  workloads::ObservedQuantity quantity = workloads::ObservedQuantity::layer_output;
  const workloads::TensorLocation& where;
  Comparison comparison;
  bool missing_in_actual = false;
  bool missing_in_expected = false;
  bool differs() const { return missing_in_actual || missing_in_expected || !comparison.equal(); }
};

/// Every observation of two legs side by side, in the execution order of the first. Tensors that
/// live inside a graph can be seen in instrumented legs only; where a plain graph leg lacks them
/// they are left out. So are masks drawn again that only one of the legs drew again.
struct LegDifference {
  std::vector<ObservationOutcome> outcomes;
  /// Of the legs, which the outcomes refer to.
  std::array<std::shared_ptr<const workloads::LegRecord>, 2> records;

  /// How many observations of these quantities were compared.
  std::uint64_t compared(std::initializer_list<workloads::ObservedQuantity> quantities) const;
  /// First that differs in execution order among these quantities; null where all are equal.
  const ObservationOutcome* first(
      std::initializer_list<workloads::ObservedQuantity> quantities) const;
  /// First that differs at all, in execution order.
  const ObservationOutcome* first() const;
};

/// The legs of one cell on one rank, and their differences, each compared once.
class LegSet {
 public:
  LegSet(const matrix::Cell& cell, ControlledComparator& comparator);

  void add(const workloads::LegRequest& request, LegState state);
  bool contains(const workloads::LegRequest& request) const { return legs_.contains(request); }
  /// Throws InternalError where the leg was not planned.
  const LegState& state(const workloads::LegRequest& request) const;
  const workloads::LegRecord& record(const workloads::LegRequest& request) const;
  const std::map<workloads::LegRequest, LegState>& all() const { return legs_; }

  /// Compares all observations of two legs on the device; the result is kept.
  const LegDifference& difference(const workloads::LegRequest& expected,
                                  const workloads::LegRequest& actual);
  /// Compares pairs of observations of one leg, given by their indices, on the device.
  std::vector<Comparison> compare_within(
      const workloads::LegRequest& request,
      std::span<const std::pair<std::size_t, std::size_t>> pairs);

 private:
  const matrix::Cell& cell_;
  ControlledComparator& comparator_;
  std::map<workloads::LegRequest, LegState> legs_;
  std::map<std::pair<workloads::LegRequest, workloads::LegRequest>, LegDifference> differences_;
};

/// `step 2 micro-batch 1 layer 0 output`, leaving out what does not apply.
std::string location_text(const workloads::TensorLocation& where);
/// The place and figures of a difference for the result record.
Divergence divergence_of(const ObservationOutcome& outcome);

}  // namespace cgconform::suites

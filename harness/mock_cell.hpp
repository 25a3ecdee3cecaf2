#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/planned_cell.hpp"
#include "workloads/device/progress.hpp"

namespace cgconform::harness {

/// What a mock cell does, for the proof that the runner judges workers that crash, hang or lie.
enum class MockBehaviour : std::uint8_t {
  pass,
  rendezvous,         ///< meets its gang through the store, then passes
  baseline,           ///< passes with comparisons and no graph
  nothing_tested,     ///< reports no captures, replays or comparisons
  failing_check,      ///< reports a failed check
  failing_when_kept,  ///< fails unless it is given a worker that has run nothing
  skip,               ///< reports its only check as skipped
  segfault,
  wild_access,  ///< faults inside the device arena
  abort_call,
  killed,  ///< ends as if from outside, by SIGKILL
  exit_zero,
  exit_nonzero,
  hang,
  hang_stubbornly,  ///< hangs with TERM ignored, and a child that left its process group
  silent_close,     ///< closes its channel and lives on
  wrong_cell,       ///< reports another attempt than it was given
  garbage,          ///< sends bytes that are no message
  other_plan,       ///< worked on another plan than its peers
  throwing,         ///< throws what the workload does not expect
  terminated,       ///< ends by SIGTERM
  poison,           ///< fails, and spoils its process for what comes after
  hidden_poison,    ///< passes, and spoils its process all the same
  poisoned,         ///< fails in a process that was spoilt
  environment,      ///< passes, and names its process and the variables it was to have
  left_behind,      ///< passes, and leaves a process in a session of its own
  lost,             ///< is planned and never given out: its verdict is missing
  slow,             ///< passes after `milliseconds`
};

struct MockBehaviourRow {
  MockBehaviour behaviour;
  std::string_view name;
  std::string_view meaning;
};
std::span<const MockBehaviourRow> mock_behaviour_table();

/// One mock cell. Only rank `rank` behaves; the others pass. In a true cell it is a mishap: the
/// behaviour strikes in the phase, between two ops of the workload.
struct MockCell {
  MockBehaviour behaviour = MockBehaviour::pass;
  int ranks = 1;
  int rank = 0;
  workloads::Phase phase = workloads::Phase::replay;  ///< in which it happens
  int milliseconds = 0;
  bool exclusive = false;
  bool fresh = false;
  matrix::ProcessEnvironment environment;
};

/// A mock cell with the behaviour of that name, on the last of its ranks. Throws InputError.
MockCell mock_named(const std::string& behaviour, int ranks);

/// As it travels to a worker, and back. Throws InputError.
std::string mock_to_text(const MockCell& mock);
MockCell mock_from_text(const std::string& text);

/// Reads a plan: a JSON list of objects with `behaviour` and, where they differ from the defaults,
/// `ranks`, `rank`, `phase`, `milliseconds`, `exclusive`, `fresh`, `environment` (an object),
/// `count`; either the list itself, or `@FILE` that holds it. Throws InputError.
std::vector<MockCell> read_mock_plan(const std::string& text_or_file);

/// The cells of a plan as a run's source.
std::unique_ptr<CellSource> mock_source(std::vector<MockCell> plan);

}  // namespace cgconform::harness

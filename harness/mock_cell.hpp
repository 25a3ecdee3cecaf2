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
  failing_when_kept,  ///< fails in a worker that has run something, passes in a fresh one
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
  slow,             ///< passes after `milliseconds`
};

struct MockBehaviourRow {
  MockBehaviour behaviour;
  std::string_view name;
  std::string_view meaning;
};
std::span<const MockBehaviourRow> mock_behaviour_table();

/// One mock cell. Only rank `rank` behaves; the others pass.
struct MockCell {
  MockBehaviour behaviour = MockBehaviour::pass;
  int ranks = 1;
  int rank = 0;
  workloads::Phase phase = workloads::Phase::replay;  ///< in which it happens
  int milliseconds = 0;
  bool exclusive = false;
  bool fresh = false;
};

/// A mock cell with the behaviour of that name, on the last of its ranks. Throws InputError.
MockCell mock_named(const std::string& behaviour, int ranks);

/// As it travels to a worker, and back. Throws InputError.
std::string mock_to_text(const MockCell& mock);
MockCell mock_from_text(const std::string& text);

/// Reads a plan: a JSON list of objects with `behaviour` and, where they differ from the defaults,
/// `ranks`, `rank`, `phase`, `milliseconds`, `exclusive`, `fresh`, `count`; either the list itself,
/// or `@FILE` that holds it. Throws InputError.
std::vector<MockCell> read_mock_plan(const std::string& text_or_file);

/// The cells of a plan as a run's source.
std::unique_ptr<CellSource> mock_source(std::vector<MockCell> plan);

}  // namespace cgconform::harness

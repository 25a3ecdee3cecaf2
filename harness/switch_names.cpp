#include "harness/switch_names.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "matrix/error.hpp"
#include "matrix/nearest_name.hpp"

namespace cgconform::harness {
namespace {

using workloads::Sabotage;

constexpr std::array<std::pair<Sabotage, std::string_view>, 7> sabotage_names{{
    {Sabotage::none, ""},
    {Sabotage::replay_does_nothing, "replay_does_nothing"},
    {Sabotage::replay_runs_eager_code, "replay_runs_eager_code"},
    {Sabotage::comparator_says_equal, "comparator_says_equal"},
    {Sabotage::capture_executes_at_once, "capture_executes_at_once"},
    {Sabotage::communicator_reports_error, "communicator_reports_error"},
    {Sabotage::timed_replay_does_nothing, "timed_replay_does_nothing"},
}};

}  // namespace

workloads::Fault fault_named(const std::string& id) {
  std::vector<std::string_view> known;
  for (const workloads::FaultRow& row : workloads::fault_table()) {
    if (row.id == id) return row.fault;
    known.push_back(row.id);
  }
  throw InputError(
      fmt::format("--fault: unknown fault '{}'{}", id, matrix::nearest_hint(id, known)));
}

std::string_view fault_id(workloads::Fault fault) {
  return workloads::fault_row(fault).id;
}

workloads::FaultSwitches fault_switches(const std::vector<std::string>& ids) {
  workloads::FaultSwitches switches;
  for (const std::string& id : ids) switches.turn_on(fault_named(id));
  return switches;
}

Sabotage sabotage_named(const std::string& name) {
  std::vector<std::string_view> known;
  for (const auto& [sabotage, known_name] : sabotage_names) {
    if (known_name == name) return sabotage;
    if (!known_name.empty()) known.push_back(known_name);
  }
  throw InputError(
      fmt::format("--sabotage: unknown sabotage '{}'{}", name, matrix::nearest_hint(name, known)));
}

std::string_view sabotage_name(Sabotage sabotage) {
  return sabotage_names.at(static_cast<std::size_t>(sabotage)).second;
}

}  // namespace cgconform::harness

#include "harness/mock_cell.hpp"

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/deadlines.hpp"
#include "matrix/error.hpp"
#include "matrix/nearest_name.hpp"

namespace cgconform::harness {
namespace {

using nlohmann::json;
using workloads::Phase;

constexpr std::array mock_rows{
    MockBehaviourRow{MockBehaviour::pass, "pass", "passes"},
    MockBehaviourRow{MockBehaviour::rendezvous, "rendezvous", "meets its gang, then passes"},
    MockBehaviourRow{MockBehaviour::baseline, "baseline", "compares without a graph"},
    MockBehaviourRow{MockBehaviour::nothing_tested, "nothing_tested",
                     "reports no captures, replays or comparisons"},
    MockBehaviourRow{MockBehaviour::failing_check, "failing_check", "reports a failed check"},
    MockBehaviourRow{MockBehaviour::failing_when_kept, "failing_when_kept",
                     "fails in a kept worker only"},
    MockBehaviourRow{MockBehaviour::skip, "skip", "skips its only check"},
    MockBehaviourRow{MockBehaviour::segfault, "segfault", "reads address 8"},
    MockBehaviourRow{MockBehaviour::wild_access, "wild_access",
                     "reads an unmapped page of the device arena"},
    MockBehaviourRow{MockBehaviour::abort_call, "abort_call", "calls abort"},
    MockBehaviourRow{MockBehaviour::killed, "killed", "is killed"},
    MockBehaviourRow{MockBehaviour::exit_zero, "exit_zero", "exits with 0 and no report"},
    MockBehaviourRow{MockBehaviour::exit_nonzero, "exit_nonzero", "exits with 9 and no report"},
    MockBehaviourRow{MockBehaviour::hang, "hang", "sleeps for ever"},
    MockBehaviourRow{MockBehaviour::hang_stubbornly, "hang_stubbornly",
                     "ignores TERM and has a child in another process group"},
    MockBehaviourRow{MockBehaviour::silent_close, "silent_close",
                     "closes its channel and lives on"},
    MockBehaviourRow{MockBehaviour::wrong_cell, "wrong_cell", "reports another attempt"},
    MockBehaviourRow{MockBehaviour::garbage, "garbage", "sends bytes that are no message"},
    MockBehaviourRow{MockBehaviour::other_plan, "other_plan", "worked on another plan"},
    MockBehaviourRow{MockBehaviour::throwing, "throwing", "throws"},
    MockBehaviourRow{MockBehaviour::terminated, "terminated", "ends by SIGTERM"},
    MockBehaviourRow{MockBehaviour::poison, "poison", "fails and spoils its process"},
    MockBehaviourRow{MockBehaviour::hidden_poison, "hidden_poison",
                     "passes and spoils its process"},
    MockBehaviourRow{MockBehaviour::poisoned, "poisoned", "fails in a spoilt process"},
    MockBehaviourRow{MockBehaviour::environment, "environment",
                     "names its process and its variables"},
    MockBehaviourRow{MockBehaviour::left_behind, "left_behind",
                     "leaves a process in another session"},
    MockBehaviourRow{MockBehaviour::lost, "lost", "is never given out"},
    MockBehaviourRow{MockBehaviour::slow, "slow", "passes late"},
};

std::string known_name(const std::string& name, const std::vector<std::string_view>& known,
                       std::string_view what) {
  if (std::find(known.begin(), known.end(), name) != known.end()) return name;
  throw InputError(
      fmt::format("mock plan: unknown {} '{}'{}", what, name, matrix::nearest_hint(name, known)));
}

MockBehaviour behaviour_named(const std::string& name) {
  std::vector<std::string_view> known;
  known.reserve(mock_rows.size());
  for (const MockBehaviourRow& row : mock_rows) known.push_back(row.name);
  known_name(name, known, "behaviour");
  return std::find_if(mock_rows.begin(), mock_rows.end(),
                      [&](const MockBehaviourRow& row) { return row.name == name; })
      ->behaviour;
}

std::string_view behaviour_name(MockBehaviour behaviour) {
  return mock_rows.at(static_cast<std::size_t>(behaviour)).name;
}

Phase phase_named(const std::string& name) {
  std::vector<std::string_view> known;
  for (const DeadlineRow& row : deadline_table()) {
    known.push_back(workloads::phase_name(row.phase));
  }
  known_name(name, known, "phase");
  return deadline_table()[static_cast<std::size_t>(std::find(known.begin(), known.end(), name) -
                                                   known.begin())]
      .phase;
}

MockCell mock_from_json(const json& object) {
  MockCell mock;
  try {
    mock.behaviour = behaviour_named(object.value("behaviour", std::string("pass")));
    mock.ranks = object.value("ranks", mock.ranks);
    mock.rank = object.value("rank", mock.rank);
    mock.phase = phase_named(object.value("phase", std::string("replay")));
    mock.milliseconds = object.value("milliseconds", mock.milliseconds);
    mock.exclusive = object.value("exclusive", mock.exclusive);
    mock.fresh = object.value("fresh", mock.fresh);
    mock.environment = object.value("environment", mock.environment);
  } catch (const json::exception& error) {
    throw InputError(fmt::format("mock plan: {}", error.what()));
  }
  if (mock.ranks < 1 || mock.rank < 0 || mock.rank >= mock.ranks) {
    throw InputError(fmt::format("mock plan: rank {} of {} does not exist", mock.rank, mock.ranks));
  }
  return mock;
}

class MockSource final : public CellSource {
 public:
  explicit MockSource(std::vector<MockCell> plan) : plan_(std::move(plan)) {
    counts_.total = plan_.size();
    counts_.run = plan_.size();
  }
  const reports::PlannedCounts& counts() const override { return counts_; }
  std::optional<SourceItem> next() override {
    while (next_ < plan_.size() && plan_[next_].behaviour == MockBehaviour::lost) ++next_;
    if (next_ == plan_.size()) return std::nullopt;
    const MockCell& mock = plan_[next_];
    PlannedCell planned;
    planned.cell.index = next_;
    planned.name.id = fmt::format("mock={}/ranks={}/number={}", behaviour_name(mock.behaviour),
                                  mock.ranks, next_);
    planned.name.hash = fmt::format("{:016x}", next_);
    planned.ranks = mock.ranks;
    planned.baseline = mock.behaviour == MockBehaviour::baseline;
    planned.exclusive = mock.exclusive;
    planned.fresh = mock.fresh;
    planned.mock = mock_to_text(mock);
    planned.environment = mock.environment;
    ++next_;
    return planned;
  }

 private:
  std::vector<MockCell> plan_;
  reports::PlannedCounts counts_;
  std::size_t next_ = 0;
};

}  // namespace

std::span<const MockBehaviourRow> mock_behaviour_table() {
  return mock_rows;
}

MockCell mock_named(const std::string& behaviour, int ranks) {
  return {.behaviour = behaviour_named(behaviour), .ranks = ranks, .rank = ranks - 1};
}

std::string mock_to_text(const MockCell& mock) {
  const json object = {{"behaviour", behaviour_name(mock.behaviour)},
                       {"ranks", mock.ranks},
                       {"rank", mock.rank},
                       {"phase", workloads::phase_name(mock.phase)},
                       {"milliseconds", mock.milliseconds},
                       {"environment", mock.environment}};
  return object.dump();
}

MockCell mock_from_text(const std::string& text) {
  try {
    return mock_from_json(json::parse(text));
  } catch (const json::exception& error) {
    throw InputError(fmt::format("mock cell: {}", error.what()));
  }
}

std::vector<MockCell> read_mock_plan(const std::string& text_or_file) {
  std::string text = text_or_file;
  if (text.starts_with('@')) {
    std::ifstream file(text.substr(1));
    if (!file) throw InputError(fmt::format("mock plan {}: cannot be read", text.substr(1)));
    text.assign(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  std::vector<MockCell> plan;
  try {
    const json list = json::parse(text);
    for (const json& object : list) {
      plan.insert(plan.end(), object.value("count", std::size_t{1}), mock_from_json(object));
    }
  } catch (const json::exception& error) {
    throw InputError(fmt::format("mock plan: {}", error.what()));
  }
  return plan;
}

std::unique_ptr<CellSource> mock_source(std::vector<MockCell> plan) {
  return std::make_unique<MockSource>(std::move(plan));
}

}  // namespace cgconform::harness

#include "workloads/lifecycle/early_return.hpp"

#include <memory>

#include <fmt/format.h>

#include "workloads/training/leg.hpp"

namespace cgconform::workloads {
namespace {

constexpr LegRequest graph_request{.kind = LegKind::graph};

/// A list of what there is more of than before.
class Surplus {
 public:
  void compare(const char* what, std::int64_t before, std::int64_t now) {
    if (now > before)
      text_ += fmt::format("{}{} {}", text_.empty() ? "" : ", ", now - before, what);
  }
  void compare_graphs(const ResourceUse& before, const ResourceUse& now) {
    compare("graphs", before.graphs, now.graphs);
    compare("executables", before.executables, now.executables);
    compare("user objects", before.user_objects, now.user_objects);
    compare("bytes of graph memory", before.graph_bytes, now.graph_bytes);
  }
  std::string text() const { return text_; }

 private:
  std::string text_;
};

/// What outlives the teardown of a leg whose record is still there.
std::string kept_by_leg(const ResourceUse& before, const ResourceUse& now,
                        const LegRecord& record) {
  if (!record.teardown.done) return "everything: it was not torn down";
  Surplus surplus;
  surplus.compare_graphs(before, now);
  surplus.compare("bytes in the pools of graphs", 0, record.live_bytes_after_teardown);
  surplus.compare("references to the communicator", 0, record.teardown.communicator_references);
  return surplus.text();
}

std::string left_behind(const ResourceUse& before, const ResourceUse& now) {
  Surplus surplus;
  surplus.compare_graphs(before, now);
  surplus.compare("streams", before.streams, now.streams);
  surplus.compare("events", before.events, now.events);
  surplus.compare("bytes of segments", before.segment_bytes, now.segment_bytes);
  return surplus.text();
}

/// The seconds of all phases that `counts` takes.
template <typename Counts>
double seconds_of(const LegRecord& record, const Counts& counts) {
  double milliseconds = 0.0;
  for (const PhaseTiming& timing : record.timings) {
    if (counts(timing.phase)) milliseconds += timing.milliseconds;
  }
  return milliseconds / 1000.0;
}

}  // namespace

EarlyReturnTrial::EarlyReturnTrial(Device& device, Communicator* gang, const matrix::Cell& cell,
                                   std::uint64_t seed)
    : device_(device), gang_(gang), cell_(cell), seed_(seed) {
  const LegRecord record =
      run_leg(cell, graph_request, {.device = device, .gang = gang, .seed = seed});
  expected_ = results_of(record);
  undisturbed_seconds_ = seconds_of(record, [](Phase) { return true; });
  trouble_ = record.error;
  if (trouble_.empty() && expected_.empty()) trouble_ = "nothing was observed";
}

EarlyReturnTrial::Results EarlyReturnTrial::results_of(const LegRecord& record) {
  Results results;
  const std::unique_ptr<Stream> stream = device_.create_stream("results");
  for (const Observation& observation : record.observations) {
    const ObservedQuantity quantity = observation.quantity;
    if (quantity != ObservedQuantity::loss && quantity != ObservedQuantity::weight) continue;
    const TensorView& view = observation.snapshot.view();
    const TensorLocation& where = observation.where;
    std::vector<std::byte>& bytes = results[{quantity, where.step, where.microbatch,
                                             fmt::format("{} {}", where.layer, where.tensor)}];
    bytes.resize(static_cast<std::size_t>(view.bytes()));
    stream->download(bytes.data(), view);
  }
  return results;
}

EarlyReturn EarlyReturnTrial::run(ReturnPoint point, const FaultSwitches* faults) {
  EarlyReturn result;
  device_.synchronize();
  const ResourceUse before = device_.resource_use();
  {
    LegEnvironment environment{
        .device = device_, .gang = gang_, .seed = seed_, .returns_at = point};
    if (faults != nullptr) environment.faults = *faults;
    const LegRecord record = run_leg(cell_, graph_request, environment);
    if (record.error != early_return_text(point)) {
      result.ended = record.error.empty() ? "it ran to its end" : record.error;
    }
    result.seconds = seconds_of(record, [](Phase phase) { return phase == Phase::teardown; });
    result.kept = kept_by_leg(before, device_.resource_use(), record);
  }
  try {
    device_.synchronize();
    result.left = left_behind(before, device_.resource_use());
    result.again = train_again();
  } catch (const DeviceError& error) {
    result.left = error.what();
  }
  return result;
}

std::string EarlyReturnTrial::train_again() {
  const LegRecord record =
      run_leg(cell_, graph_request, {.device = device_, .gang = gang_, .seed = seed_});
  if (!record.error.empty()) return record.error;
  if (results_of(record) != expected_) return "its losses and weights are not those of before";
  return {};
}

}  // namespace cgconform::workloads

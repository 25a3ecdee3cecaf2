#include "suites/shared_legs.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "workloads/allocator/caching_allocator.hpp"
#include "workloads/ops/verification.hpp"
#include "workloads/training/eager_problem.hpp"

namespace cgconform::suites {

using workloads::LegKind;
using workloads::LegRecord;
using workloads::LegRequest;
using workloads::TensorView;

namespace {

bool may_be_shared(const LegRequest& request) {
  return request.kind == LegKind::eager && request.repetition == 0 && !request.timed &&
         request.cycles == 0;
}

/// The memory that a leg's observations lie in, each stretch once.
std::vector<TensorView> memory_of(const LegRecord& record) {
  std::map<const void*, TensorView> memory;
  for (const workloads::Observation& observation : record.observations) {
    const TensorView whole = observation.snapshot.whole();
    const TensorView& view = whole.valid() ? whole : observation.snapshot.view();
    if (view.elements() > 0) memory.emplace(view.data, view);
  }
  std::vector<TensorView> views;
  views.reserve(memory.size());
  for (const auto& [data, view] : memory) views.push_back(view);
  return views;
}

}  // namespace

/// Hashes tensors on the device.
class SharedLegs::Hasher {
 public:
  explicit Hasher(workloads::Device& device)
      : device_(device),
        stream_(device.create_stream("shared legs")),
        allocator_(device.segment_source()) {}

  std::vector<std::uint64_t> hashes(const std::vector<TensorView>& tensors) {
    if (tensors.empty()) return {};
    const auto count = static_cast<std::int64_t>(tensors.size());
    const workloads::Buffer cells(allocator_, *stream_, workloads::default_pool,
                                  workloads::DType::uint64, workloads::Shape{count},
                                  "hashes of a kept leg");
    device_.synchronize();
    workloads::checksums(*stream_, cells.view(), tensors, "hash a kept leg");
    std::vector<std::uint64_t> values(tensors.size());
    stream_->download(values.data(), cells.view());
    return values;
  }

 private:
  workloads::Device& device_;
  std::unique_ptr<workloads::Stream> stream_;
  workloads::CachingAllocator allocator_;
};

struct SharedLegs::Entry {
  LegOwner owner;
  matrix::Cell problem;
  LegRequest request;
  std::shared_ptr<const LegRecord> record;
  std::vector<TensorView> memory;
  std::vector<std::uint64_t> hashes;
  std::int64_t bytes = 0;
  std::set<std::string> users;  ///< ids of the cells that have it
};

SharedLegs::SharedLegs(workloads::Device& device, std::int64_t most_bytes)
    : hasher_(std::make_unique<Hasher>(device)), most_bytes_(most_bytes) {}

SharedLegs::~SharedLegs() = default;

std::list<SharedLegs::Entry>::iterator SharedLegs::find(const LegOwner& owner,
                                                        const matrix::Cell& problem,
                                                        const LegRequest& request) {
  return std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.owner.seed == owner.seed && entry.owner.gang == owner.gang &&
           entry.owner.environment == owner.environment && entry.request == request &&
           workloads::is_same_problem(entry.problem, problem);
  });
}

bool SharedLegs::agree(const LegOwner& owner, bool available) const {
  if (owner.communicator == nullptr) return available;
  const std::vector<std::string> all =
      owner.communicator->exchange(available ? "has the leg" : "has no such leg");
  return available && std::all_of(all.begin(), all.end(),
                                  [&](const std::string& other) { return other == all.front(); });
}

void SharedLegs::keep(Entry entry) {
  for (const TensorView& view : entry.memory) entry.bytes += view.bytes();
  if (entry.bytes > most_bytes_) return;
  entry.hashes = hasher_->hashes(entry.memory);
  kept_bytes_ += entry.bytes;
  entries_.push_front(std::move(entry));
  while (kept_bytes_ > most_bytes_) {
    kept_bytes_ -= entries_.back().bytes;
    entries_.pop_back();
  }
}

SourcedLeg SharedLegs::take(const LegOwner& owner, const matrix::Cell& cell,
                            const LegRequest& request, const Run& run) {
  if (!may_be_shared(request)) return run();
  const matrix::Cell problem = workloads::eager_problem(cell);
  const auto known = find(owner, problem, request);
  const bool usable = known != entries_.end() && !known->users.contains(owner.cell) &&
                      hasher_->hashes(known->memory) == known->hashes;
  if (agree(owner, usable)) {
    known->users.insert(owner.cell);
    entries_.splice(entries_.begin(), entries_, known);
    return SourcedLeg(known->record, known->owner.cell);
  }
  if (known != entries_.end()) {
    kept_bytes_ -= known->bytes;
    entries_.erase(known);
  }
  const auto record = std::make_shared<const LegRecord>(run());
  if (record->error.empty()) {
    Entry entry{owner, problem, request, record, memory_of(*record), {}, 0, {owner.cell}};
    entry.owner.communicator = nullptr;
    keep(std::move(entry));
  }
  return SourcedLeg(record);
}

}  // namespace cgconform::suites

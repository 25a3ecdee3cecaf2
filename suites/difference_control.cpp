#include "suites/difference_control.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <vector>

#include <fmt/format.h>

namespace cgconform::suites {
namespace {

using workloads::Buffer;
using workloads::DType;
using workloads::LegRecord;
using workloads::Observation;
using workloads::TensorView;

std::map<DType, const Observation*> largest_of_each_dtype(const LegRecord& record) {
  std::map<DType, const Observation*> largest;
  for (const Observation& observation : record.observations) {
    const TensorView& view = observation.snapshot.view();
    if (view.elements() == 0) continue;
    const Observation*& known = largest[view.dtype];
    if (known == nullptr || known->snapshot.view().elements() < view.elements()) {
      known = &observation;
    }
  }
  return largest;
}

/// Replaces the last element by one that is neither equal nor close: all bits set is a NaN in every
/// floating-point type.
void spoil_last_element(std::vector<std::byte>& content, DType dtype) {
  const auto last = content.end() - static_cast<std::ptrdiff_t>(workloads::dtype_bytes(dtype));
  const bool all_set =
      std::all_of(last, content.end(), [](std::byte byte) { return byte == std::byte{0xFF}; });
  std::fill(last, content.end(), all_set ? std::byte{0} : std::byte{0xFF});
}

class ControlLegs {
 public:
  explicit ControlLegs(workloads::Device& device)
      : stream_(device.create_stream("difference control")), allocator_(device.segment_source()) {}

  void add(const Observation& observation) {
    const TensorView& view = observation.snapshot.view();
    std::vector<std::byte> content(static_cast<std::size_t>(view.bytes()));
    stream_->download(content.data(), view);
    right_.observations.push_back({observation.quantity, observation.where, copy(view, content)});
    spoil_last_element(content, view.dtype);
    wrong_.observations.push_back({observation.quantity, observation.where, copy(view, content)});
    stream_->synchronize();
  }

  void move_into(LegSet& legs) {
    legs.add(eager_leg(), {.leg = std::move(right_), .ran = true});
    legs.add(eager_repeat_leg(), {.leg = std::move(wrong_), .ran = true});
  }

 private:
  Buffer copy(const TensorView& view, const std::vector<std::byte>& content) {
    Buffer buffer(allocator_, *stream_, workloads::default_pool, view.dtype, view.shape,
                  "difference control");
    stream_->upload(buffer.view(), content.data(), false, "difference control");
    return buffer;
  }

  std::unique_ptr<workloads::Stream> stream_;
  workloads::CachingAllocator allocator_;
  LegRecord right_;
  LegRecord wrong_;
};

}  // namespace

std::string find_overlooked_difference(const matrix::Cell& cell, const LegSet& legs,
                                       workloads::Device& device,
                                       ControlledComparator& comparator) {
  if (!legs.contains(eager_leg()) || !legs.state(eager_leg()).complete()) return {};
  const auto largest = largest_of_each_dtype(legs.record(eager_leg()));
  ControlLegs control(device);
  for (const auto& [dtype, observation] : largest) control.add(*observation);
  LegSet pair(cell, comparator);
  control.move_into(pair);
  const LegDifference& difference = pair.difference(eager_leg(), eager_repeat_leg());
  for (const auto& [dtype, largest_of_dtype] : largest) {
    const auto& observation = largest_of_dtype;  // clang 14 does not capture structured bindings
    const std::int64_t elements = observation->snapshot.view().elements();
    const auto seen = std::find_if(
        difference.outcomes.begin(), difference.outcomes.end(), [&](const auto& outcome) {
          return outcome.quantity == observation->quantity && outcome.where == observation->where;
        });
    const bool found = seen != difference.outcomes.end() && seen->differs() &&
                       seen->comparison.bad_count == 1 &&
                       seen->comparison.first_bad_index == elements - 1 &&
                       difference.first({observation->quantity}) != nullptr;
    if (!found) {
      return fmt::format("a copy of {} whose last of {} elements is wrong was not told apart",
                         location_text(observation->where), elements);
    }
  }
  return {};
}

}  // namespace cgconform::suites

#include "workloads/allocator/address_ledger.hpp"

#include <algorithm>

namespace cgconform::workloads {
namespace {

const std::byte* end_of(const CarvedSegment& segment) {
  return segment.segment.data + segment.segment.bytes;
}

}  // namespace

std::vector<AddressLedger::Entry>::const_iterator AddressLedger::covering(
    const std::vector<Entry>& entries, const std::byte* address) {
  auto next = std::upper_bound(
      entries.begin(), entries.end(), address,
      [](const std::byte* at, const Entry& entry) { return at < entry.segment->segment.data; });
  if (next == entries.begin()) return entries.end();
  --next;
  return address < end_of(*next->segment) ? next : entries.end();
}

void AddressLedger::add(PoolId pool, CarvedSegment& segment) {
  const auto place = std::upper_bound(
      in_use_.begin(), in_use_.end(), segment.segment.data,
      [](const std::byte* at, const Entry& entry) { return at < entry.segment->segment.data; });
  in_use_.insert(place, {pool, &segment});
}

void AddressLedger::retire(std::unique_ptr<CarvedSegment> segment) {
  const auto entry = covering(in_use_, segment->segment.data);
  const Entry retired = *entry;
  in_use_.erase(entry);
  const auto overlaps = [&](const CarvedSegment& other) {
    return other.segment.data < end_of(*segment) && segment->segment.data < end_of(other);
  };
  retired_.erase(std::remove_if(retired_.begin(), retired_.end(),
                                [&](const Entry& old) { return overlaps(*old.segment); }),
                 retired_.end());
  kept_.erase(
      std::remove_if(kept_.begin(), kept_.end(), [&](const auto& old) { return overlaps(*old); }),
      kept_.end());
  const auto place = std::upper_bound(
      retired_.begin(), retired_.end(), segment->segment.data,
      [](const std::byte* at, const Entry& old) { return at < old.segment->segment.data; });
  retired_.insert(place, retired);
  kept_.push_back(std::move(segment));
}

CarvedSegment* AddressLedger::segment_of(const std::byte* address) const {
  const auto entry = covering(in_use_, address);
  return entry == in_use_.end() ? nullptr : entry->segment;
}

AddressRecord AddressLedger::look_up(const void* address) const {
  const auto* byte = static_cast<const std::byte*>(address);
  for (const auto* entries : {&in_use_, &retired_}) {
    const auto entry = covering(*entries, byte);
    if (entry == entries->end()) continue;
    const CarvedSegment& segment = *entry->segment;
    const Slot* slot = segment.find(byte);
    if (slot == nullptr) continue;
    const std::byte* payload = segment.payload(*slot);
    AddressRecord record{.state = AddressState::guard,
                         .generation = slot->generation,
                         .pool = entry->pool,
                         .label = slot->label};
    if (byte >= payload && byte < payload + slot->bytes) {
      record.state = slot->live ? AddressState::live : AddressState::freed;
    }
    return record;
  }
  return {};
}

}  // namespace cgconform::workloads

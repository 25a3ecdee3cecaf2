#include "workloads/allocator/guarded_source.hpp"

#include <utility>

#include "matrix/error.hpp"

namespace cgconform::workloads {

GuardedSource::GuardedSource(SegmentSource& source, BlockPlacement placement)
    : SourceAdaptor(source), placement_(placement) {}

Segment GuardedSource::allocate(std::int64_t bytes) {
  if (granule_ == 0) {
    const Segment smallest = source().allocate(1);
    granule_ = smallest.bytes;
    source().release(smallest);
  }
  const Segment whole = source().allocate(bytes + 2 * granule_);
  const Segment inner{whole.data + granule_, whole.bytes - 2 * granule_};
  source().unmap({whole.data, granule_});
  source().unmap({inner.data + inner.bytes, granule_});
  whole_.emplace(inner.data, whole);
  in_use_ += inner.bytes;
  return inner;
}

void GuardedSource::release(const Segment& segment) {
  auto found = whole_.extract(segment.data);
  if (found.empty()) throw InternalError("a segment is released that is not of this source");
  in_use_ -= segment.bytes;
  source().release(found.mapped());
}

BlockPlacement placement_of(const SegmentSource& source) {
  const auto* guarded = dynamic_cast<const GuardedSource*>(&source);
  return guarded == nullptr ? BlockPlacement::packed : guarded->placement();
}

}  // namespace cgconform::workloads

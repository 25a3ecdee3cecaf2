#include "workloads/allocator/straddling_source.hpp"

#include "matrix/error.hpp"

namespace cgconform::workloads {
namespace {

/// What of a segment lies in its first chunk: room for a front guard and the beginning of a block.
constexpr std::int64_t lead_bytes = 512;

}  // namespace

Segment StraddlingSource::allocate(std::int64_t bytes) {
  const Segment whole = source().allocate(bytes + chunk_bytes_);
  const std::int64_t skipped = chunk_bytes_ - lead_bytes;
  const Segment inner{whole.data + skipped, whole.bytes - skipped};
  whole_.emplace(inner.data, whole);
  return inner;
}

void StraddlingSource::release(const Segment& segment) {
  const auto found = whole_.extract(segment.data);
  if (found.empty()) throw InternalError("a segment is released that is not of this source");
  source().release(found.mapped());
}

void StraddlingSource::unmap(const Segment& segment) {
  const auto found = whole_.find(segment.data);
  if (found == whole_.end())
    throw InternalError("a segment is unmapped that is not of this source");
  source().unmap(found->second);
}

}  // namespace cgconform::workloads

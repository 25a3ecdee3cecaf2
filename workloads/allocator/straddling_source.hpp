#pragma once

#include <cstdint>
#include <map>
#include <string_view>

#include "workloads/allocator/segment_kind.hpp"
#include "workloads/allocator/source_adaptors.hpp"

namespace cgconform::workloads {

/// Segments that begin shortly before a border between two chunks of the wrapped source, so that
/// already the first buffer carved from one spans two handles, however small the model is.
class StraddlingSource final : public SourceAdaptor, public ChunkedSource {
 public:
  /// `source` hands out whole chunks at multiples of `chunk_bytes`.
  StraddlingSource(SegmentSource& source, std::string_view name, std::int64_t chunk_bytes)
      : SourceAdaptor(source), name_(name), chunk_bytes_(chunk_bytes) {}

  std::string_view name() const override { return name_; }
  Segment allocate(std::int64_t bytes) override;
  void release(const Segment& segment) override;
  void unmap(const Segment& segment) override;
  std::int64_t chunk_bytes() const override { return chunk_bytes_; }

 private:
  std::string_view name_;
  std::int64_t chunk_bytes_;
  std::map<const std::byte*, Segment> whole_;  ///< by the start of the part handed out
};

}  // namespace cgconform::workloads

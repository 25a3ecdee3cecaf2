#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>

#include "workloads/allocator/segment_source.hpp"

namespace cgconform::workloads::reference {

class Core;

/// Device memory of the reference device: one reserved range of addresses without access, of which
/// segments are made accessible page by page. Released and unmapped segments fault when touched.
/// Addresses of released segments are handed out again, those of unmapped ones only after release.
class ReferenceArena : public SegmentSource {
 public:
  /// Throws DeviceError memory_allocation where the range cannot be reserved.
  ReferenceArena(Core& core, std::int64_t bytes);
  ~ReferenceArena() override;
  ReferenceArena(const ReferenceArena&) = delete;
  ReferenceArena& operator=(const ReferenceArena&) = delete;

  std::string_view name() const override { return "reference arena"; }
  Segment allocate(std::int64_t bytes) override;
  void release(const Segment& segment) override;
  void unmap(const Segment& segment) override;
  bool owns(const void* address) const override;
  std::int64_t bytes_in_use() const override;
  CaptureMode exchange_capture_mode(CaptureMode mode) override;
  void mark(std::byte* data, std::int64_t bytes, std::uint8_t value, Stream& stream) override;
  std::unique_ptr<StreamPoint> point(Stream& stream) override;
  void inspect(const std::byte* data, std::int64_t bytes, std::byte* host) override;

  /// The whole reserved range; constant for the arena's life.
  AddressRange range() const override { return {base_, static_cast<std::size_t>(capacity_)}; }

 private:
  /// Offset and size of a live segment that matches exactly; throws invalid_value otherwise.
  std::map<std::int64_t, std::int64_t>::iterator find_live(const Segment& segment,
                                                           std::string_view call);
  void protect(std::int64_t offset, std::int64_t bytes, bool accessible, std::string_view call);

  Core& core_;
  std::int64_t page_;
  std::int64_t capacity_;
  std::byte* base_ = nullptr;
  mutable std::mutex mutex_;
  std::map<std::int64_t, std::int64_t> free_;  ///< offset to bytes, neighbours joined
  std::map<std::int64_t, std::int64_t> live_;  ///< offset to bytes, unmapped ones included
  std::int64_t in_use_ = 0;
};

}  // namespace cgconform::workloads::reference

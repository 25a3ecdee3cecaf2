#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "workloads/allocator/segment_kind.hpp"
#include "workloads/allocator/segment_source.hpp"
#include "workloads/device/cuda/cuda_handles.hpp"
#include "workloads/device/errors.hpp"

namespace cgconform::workloads::cuda {

/// What the sources of a GPU have in common: work for the allocator's own purposes, kept out of
/// captures and of the launch counters.
class CudaSegmentSource : public SegmentSource {
 public:
  CudaSegmentSource();
  CaptureMode exchange_capture_mode(CaptureMode mode) override;
  void mark(std::byte* data, std::int64_t bytes, std::uint8_t value, Stream& stream) override;
  std::unique_ptr<StreamPoint> point(Stream& stream) override;
  void inspect(const std::byte* data, std::int64_t bytes, std::byte* host) override;

 protected:
  cudaStream_t own_stream() const { return own_stream_.get(); }

  /// Gives memory back. Where the context has ended there is nothing to give back, and its error
  /// shows at the next synchronisation; allocators release in destructors, which must not throw.
  template <typename Release>
  static void release_quietly_after_the_end(Release&& release) {
    try {
      release();
    } catch (const DeviceError& error) {
      if (!ends_context(error.category())) throw;
    }
  }

 private:
  StreamHandle own_stream_;  ///< non-blocking: usable while other streams capture
};

/// Segments from cudaMalloc. `unmap` frees the memory; its addresses are then the driver's to
/// reuse. Allocation runs under a relaxed-mode exchange, because cudaMalloc is refused on a thread
/// that captures in global or thread-local mode.
///
/// Allocators come and go with every leg, and raw calls cost as much as dozens of launches: in
/// relaxed mode, which is the allocators', released segments are kept for the next one that asks
/// for as many bytes. In any other mode every call is the driver's, refusals included.
class PlainSegmentSource final : public CudaSegmentSource {
 public:
  PlainSegmentSource() = default;
  ~PlainSegmentSource() override;
  PlainSegmentSource(const PlainSegmentSource&) = delete;
  PlainSegmentSource& operator=(const PlainSegmentSource&) = delete;

  std::string_view name() const override { return "cudaMalloc"; }
  Segment allocate(std::int64_t bytes) override;
  void release(const Segment& segment) override;
  void unmap(const Segment& segment) override;
  bool owns(const void* address) const override;
  std::int64_t bytes_in_use() const override;
  AddressRange range() const override { return {}; }

 private:
  std::byte* take_idle(std::int64_t bytes);
  /// True where the segment is kept; nothing may use it any more.
  bool keep_idle(const Segment& segment);
  void free_idle();
  /// False where the segment was unmapped before.
  bool forget(const Segment& segment);

  mutable std::mutex mutex_;
  std::map<const std::byte*, std::int64_t> live_;
  std::map<const std::byte*, std::int64_t> ever_;
  std::map<std::int64_t, std::vector<std::byte*>> idle_;  ///< by bytes
  std::int64_t idle_bytes_ = 0;
};

/// Segments from the virtual memory API, grown by chunks of one physical handle each, so that one
/// buffer can span several handles (PyTorch's expandable segments). Addresses are never reused.
class ExpandableSegmentSource final : public CudaSegmentSource, public ChunkedSource {
 public:
  /// `chunk_bytes` is rounded up to the device's allocation granularity.
  ExpandableSegmentSource(int device, std::int64_t chunk_bytes, std::int64_t reserved_bytes);
  ~ExpandableSegmentSource() override;
  ExpandableSegmentSource(const ExpandableSegmentSource&) = delete;
  ExpandableSegmentSource& operator=(const ExpandableSegmentSource&) = delete;

  std::string_view name() const override { return "expandable segments"; }
  Segment allocate(std::int64_t bytes) override;
  void release(const Segment& segment) override;
  void unmap(const Segment& segment) override;
  bool owns(const void* address) const override;
  std::int64_t bytes_in_use() const override;
  AddressRange range() const override;
  std::int64_t chunk_bytes() const override { return static_cast<std::int64_t>(chunk_bytes_); }

 private:
  void map_chunk(CUdeviceptr address);
  /// Does nothing for a chunk that was unmapped before.
  void unmap_chunk(CUdeviceptr address);

  int device_ = 0;
  std::size_t chunk_bytes_ = 0;
  CUdeviceptr base_ = 0;
  std::size_t reserved_bytes_ = 0;
  std::size_t used_bytes_ = 0;
  mutable std::mutex mutex_;
  std::set<CUdeviceptr> mapped_;
};

}  // namespace cgconform::workloads::cuda

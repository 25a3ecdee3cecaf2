#include "workloads/device/cuda/cuda_segment_source.hpp"

#include <fmt/format.h>

#include "workloads/device/cuda/cuda_error.hpp"

namespace cgconform::workloads::cuda {

namespace {

/// Lets the calling thread allocate while it captures, for the scope's duration.
class RelaxedCaptureScope {
 public:
  RelaxedCaptureScope() { CGCONFORM_CUDA_TRY(cudaThreadExchangeStreamCaptureMode(&mode_)); }
  ~RelaxedCaptureScope() { static_cast<void>(cudaThreadExchangeStreamCaptureMode(&mode_)); }
  RelaxedCaptureScope(const RelaxedCaptureScope&) = delete;
  RelaxedCaptureScope& operator=(const RelaxedCaptureScope&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

std::size_t round_up(std::size_t value, std::size_t granularity) {
  return (value + granularity - 1) / granularity * granularity;
}

CUmemAllocationProp pinned_device_memory(int device) {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device;
  return properties;
}

}  // namespace

PlainSegmentSource::~PlainSegmentSource() {
  for (const auto& [data, bytes] : live_) {
    static_cast<void>(cudaFree(const_cast<std::byte*>(data)));
  }
}

Segment PlainSegmentSource::allocate(std::int64_t bytes) {
  const RelaxedCaptureScope relaxed;
  void* data = nullptr;
  CGCONFORM_CUDA_TRY(cudaMalloc(&data, static_cast<std::size_t>(bytes)));
  const std::lock_guard lock(mutex_);
  live_[static_cast<std::byte*>(data)] = bytes;
  ever_[static_cast<std::byte*>(data)] = bytes;
  return {static_cast<std::byte*>(data), bytes};
}

void PlainSegmentSource::release(const Segment& segment) {
  const RelaxedCaptureScope relaxed;
  CGCONFORM_CUDA_TRY(cudaFree(segment.data));
  const std::lock_guard lock(mutex_);
  live_.erase(segment.data);
}

bool PlainSegmentSource::owns(const void* address) const {
  const std::lock_guard lock(mutex_);
  const auto* byte = static_cast<const std::byte*>(address);
  auto found = ever_.upper_bound(byte);
  if (found == ever_.begin()) return false;
  --found;
  return byte < found->first + found->second;
}

std::int64_t PlainSegmentSource::bytes_in_use() const {
  const std::lock_guard lock(mutex_);
  std::int64_t total = 0;
  for (const auto& [data, bytes] : live_) total += bytes;
  return total;
}

ExpandableSegmentSource::ExpandableSegmentSource(int device, std::int64_t chunk_bytes,
                                                 std::int64_t reserved_bytes)
    : device_(device) {
  const CUmemAllocationProp properties = pinned_device_memory(device_);
  std::size_t granularity = 0;
  CGCONFORM_CUDA_TRY(cuMemGetAllocationGranularity(&granularity, &properties,
                                                   CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
  chunk_bytes_ = round_up(static_cast<std::size_t>(chunk_bytes), granularity);
  reserved_bytes_ = round_up(static_cast<std::size_t>(reserved_bytes), chunk_bytes_);
  CGCONFORM_CUDA_TRY(cuMemAddressReserve(&base_, reserved_bytes_, chunk_bytes_, 0, 0));
}

ExpandableSegmentSource::~ExpandableSegmentSource() {
  for (CUdeviceptr address : mapped_) static_cast<void>(cuMemUnmap(address, chunk_bytes_));
  static_cast<void>(cuMemAddressFree(base_, reserved_bytes_));
}

void ExpandableSegmentSource::map_chunk(CUdeviceptr address) {
  const CUmemAllocationProp properties = pinned_device_memory(device_);
  CUmemGenericAllocationHandle handle = 0;
  CGCONFORM_CUDA_TRY(cuMemCreate(&handle, chunk_bytes_, &properties, 0));
  const CUresult mapped = cuMemMap(address, chunk_bytes_, 0, handle, 0);
  static_cast<void>(cuMemRelease(handle));  // the mapping keeps the memory
  CGCONFORM_CUDA_TRY(mapped);
  mapped_.insert(address);
  CUmemAccessDesc access = {};
  access.location = properties.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CGCONFORM_CUDA_TRY(cuMemSetAccess(address, chunk_bytes_, &access, 1));
}

void ExpandableSegmentSource::unmap_chunk(CUdeviceptr address) {
  CGCONFORM_CUDA_TRY(cuMemUnmap(address, chunk_bytes_));
  mapped_.erase(address);
}

Segment ExpandableSegmentSource::allocate(std::int64_t bytes) {
  const std::size_t wanted = round_up(static_cast<std::size_t>(bytes), chunk_bytes_);
  const RelaxedCaptureScope relaxed;
  const std::lock_guard lock(mutex_);
  if (used_bytes_ + wanted > reserved_bytes_) {
    throw DeviceError(
        ErrorCategory::memory_allocation, "cuMemMap",
        fmt::format("expandable segments: {} bytes wanted, {} of {} reserved bytes are used",
                    wanted, used_bytes_, reserved_bytes_));
  }
  const CUdeviceptr start = base_ + used_bytes_;
  std::size_t done = 0;
  try {
    for (; done < wanted; done += chunk_bytes_) map_chunk(start + done);
  } catch (const DeviceError&) {
    while (done > 0) {
      done -= chunk_bytes_;
      unmap_chunk(start + done);
    }
    throw;
  }
  used_bytes_ += wanted;
  return {reinterpret_cast<std::byte*>(start), static_cast<std::int64_t>(wanted)};
}

void ExpandableSegmentSource::unmap(const Segment& segment) {
  const RelaxedCaptureScope relaxed;
  const std::lock_guard lock(mutex_);
  const auto start = reinterpret_cast<CUdeviceptr>(segment.data);
  const std::size_t bytes = round_up(static_cast<std::size_t>(segment.bytes), chunk_bytes_);
  for (std::size_t offset = 0; offset < bytes; offset += chunk_bytes_) unmap_chunk(start + offset);
}

bool ExpandableSegmentSource::owns(const void* address) const {
  const auto value = reinterpret_cast<CUdeviceptr>(address);
  return value >= base_ && value < base_ + reserved_bytes_;
}

std::int64_t ExpandableSegmentSource::bytes_in_use() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::int64_t>(mapped_.size() * chunk_bytes_);
}

}  // namespace cgconform::workloads::cuda

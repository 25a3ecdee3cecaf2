#include "workloads/device/cuda/cuda_segment_source.hpp"

#include <fmt/format.h>

#include "workloads/device/cuda/cuda_driver.hpp"
#include "workloads/device/cuda/cuda_error.hpp"
#include "workloads/device/cuda/cuda_stream.hpp"

namespace cgconform::workloads::cuda {

namespace {

cudaStreamCaptureMode to_runtime(CaptureMode mode) {
  switch (mode) {
    case CaptureMode::global:
      return cudaStreamCaptureModeGlobal;
    case CaptureMode::thread_local_mode:
      return cudaStreamCaptureModeThreadLocal;
    case CaptureMode::relaxed:
      return cudaStreamCaptureModeRelaxed;
  }
  return cudaStreamCaptureModeGlobal;
}

CaptureMode from_runtime(cudaStreamCaptureMode mode) {
  switch (mode) {
    case cudaStreamCaptureModeThreadLocal:
      return CaptureMode::thread_local_mode;
    case cudaStreamCaptureModeRelaxed:
      return CaptureMode::relaxed;
    default:
      return CaptureMode::global;
  }
}

/// An event at the end of a stream's queue.
class EventPoint final : public StreamPoint {
 public:
  EventPoint(CudaSegmentSource& source, cudaStream_t stream) : source_(source) {
    cudaEvent_t event = nullptr;
    CGCONFORM_CUDA_TRY(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    event_.reset(event);
    CGCONFORM_CUDA_TRY(cudaEventRecord(event, stream));
  }
  bool passed() const override {
    const RelaxedCaptureScope relaxed(source_);
    const cudaError_t status = cudaEventQuery(event_.get());
    if (status == cudaErrorNotReady) {
      cudaGetLastError();
      return false;
    }
    CGCONFORM_CUDA_TRY(status);
    return true;
  }

 private:
  CudaSegmentSource& source_;
  EventHandle event_;
};

/// Idle segments are worth their memory as long as it is little beside the device's.
constexpr std::int64_t most_idle_bytes = std::int64_t{1} << 30;

bool is_relaxed(SegmentSource& source) {
  const CaptureMode mode = source.exchange_capture_mode(CaptureMode::relaxed);
  source.exchange_capture_mode(mode);
  return mode == CaptureMode::relaxed;
}

/// The driver's addresses are integers; everything else speaks of pointers.
std::byte* pointer_of(CUdeviceptr address) {
  return reinterpret_cast<std::byte*>(address);  // NOLINT(performance-no-int-to-ptr)
}

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

CudaSegmentSource::CudaSegmentSource() {
  cudaStream_t stream = nullptr;
  CGCONFORM_CUDA_TRY(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  own_stream_.reset(stream);
}

CaptureMode CudaSegmentSource::exchange_capture_mode(CaptureMode mode) {
  cudaStreamCaptureMode exchanged = to_runtime(mode);
  // The call may repeat the error of an earlier launch; the mode is exchanged all the same.
  const cudaError_t status = cudaThreadExchangeStreamCaptureMode(&exchanged);
  if (!ends_context(category_of(status))) CGCONFORM_CUDA_TRY(status);
  return from_runtime(exchanged);
}

void CudaSegmentSource::mark(std::byte* data, std::int64_t bytes, std::uint8_t value,
                             Stream& stream) {
  const bool captures = stream.capture_status() != CaptureStatus::none;
  const RelaxedCaptureScope relaxed(*this);
  const cudaStream_t target =
      captures ? own_stream_.get() : static_cast<CudaStream&>(stream).handle();
  CGCONFORM_CUDA_TRY(cudaMemsetAsync(data, value, static_cast<std::size_t>(bytes), target));
  if (captures) CGCONFORM_CUDA_TRY(cudaStreamSynchronize(target));
}

std::unique_ptr<StreamPoint> CudaSegmentSource::point(Stream& stream) {
  if (stream.capture_status() != CaptureStatus::none) return nullptr;
  try {
    return std::make_unique<EventPoint>(*this, static_cast<CudaStream&>(stream).handle());
  } catch (const DeviceError& error) {
    // Asked for where a block is freed, also by destructors after the context has ended.
    if (!ends_context(error.category())) throw;
    return nullptr;
  }
}

void CudaSegmentSource::inspect(const std::byte* data, std::int64_t bytes, std::byte* host) {
  const RelaxedCaptureScope relaxed(*this);
  CGCONFORM_CUDA_TRY(cudaMemcpyAsync(host, data, static_cast<std::size_t>(bytes),
                                     cudaMemcpyDeviceToHost, own_stream_.get()));
  CGCONFORM_CUDA_TRY(cudaStreamSynchronize(own_stream_.get()));
}

PlainSegmentSource::~PlainSegmentSource() {
  free_idle();
  for (const auto& [data, bytes] : live_) {
    static_cast<void>(cudaFree(const_cast<std::byte*>(data)));
  }
}

Segment PlainSegmentSource::allocate(std::int64_t bytes) {
  void* data = take_idle(bytes);
  if (data == nullptr) {
    const auto size = static_cast<std::size_t>(bytes);
    cudaError_t status = cudaMalloc(&data, size);
    if (status == cudaErrorMemoryAllocation && idle_bytes_ > 0) {
      cudaGetLastError();
      free_idle();
      status = cudaMalloc(&data, size);
    }
    CGCONFORM_CUDA_TRY(status);
  }
  const std::lock_guard lock(mutex_);
  live_[static_cast<std::byte*>(data)] = bytes;
  ever_[static_cast<std::byte*>(data)] = bytes;
  return {static_cast<std::byte*>(data), bytes};
}

void PlainSegmentSource::release(const Segment& segment) {
  if (!forget(segment) || keep_idle(segment)) return;
  release_quietly_after_the_end([&] { CGCONFORM_CUDA_TRY(cudaFree(segment.data)); });
}

void PlainSegmentSource::unmap(const Segment& segment) {
  if (!forget(segment)) return;
  release_quietly_after_the_end([&] { CGCONFORM_CUDA_TRY(cudaFree(segment.data)); });
}

bool PlainSegmentSource::forget(const Segment& segment) {
  const std::lock_guard lock(mutex_);
  return live_.erase(segment.data) > 0;
}

std::byte* PlainSegmentSource::take_idle(std::int64_t bytes) {
  if (!is_relaxed(*this)) return nullptr;
  const std::lock_guard lock(mutex_);
  const auto found = idle_.find(bytes);
  if (found == idle_.end() || found->second.empty()) return nullptr;
  std::byte* data = found->second.back();
  found->second.pop_back();
  idle_bytes_ -= bytes;
  return data;
}

bool PlainSegmentSource::keep_idle(const Segment& segment) {
  if (idle_bytes_ + segment.bytes > most_idle_bytes || !is_relaxed(*this)) return false;
  // As cudaFree, which waits for whatever still uses the memory.
  if (cudaDeviceSynchronize() != cudaSuccess) return false;
  const std::lock_guard lock(mutex_);
  idle_[segment.bytes].push_back(segment.data);
  idle_bytes_ += segment.bytes;
  return true;
}

void PlainSegmentSource::free_idle() {
  const std::lock_guard lock(mutex_);
  for (const auto& [bytes, segments] : idle_) {
    for (std::byte* data : segments) static_cast<void>(cudaFree(data));
  }
  idle_.clear();
  idle_bytes_ = 0;
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
  CGCONFORM_CUDA_TRY(
      driver().get_granularity(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
  chunk_bytes_ = round_up(static_cast<std::size_t>(chunk_bytes), granularity);
  reserved_bytes_ = round_up(static_cast<std::size_t>(reserved_bytes), chunk_bytes_);
  CGCONFORM_CUDA_TRY(driver().address_reserve(&base_, reserved_bytes_, chunk_bytes_, 0, 0));
}

ExpandableSegmentSource::~ExpandableSegmentSource() {
  for (CUdeviceptr address : mapped_) static_cast<void>(driver().unmap(address, chunk_bytes_));
  static_cast<void>(driver().address_free(base_, reserved_bytes_));
}

void ExpandableSegmentSource::map_chunk(CUdeviceptr address) {
  const CUmemAllocationProp properties = pinned_device_memory(device_);
  CUmemGenericAllocationHandle handle = 0;
  CGCONFORM_CUDA_TRY(driver().create(&handle, chunk_bytes_, &properties, 0));
  const CUresult mapped = driver().map(address, chunk_bytes_, 0, handle, 0);
  static_cast<void>(driver().release(handle));  // the mapping keeps the memory
  CGCONFORM_CUDA_TRY(mapped);
  mapped_.insert(address);
  CUmemAccessDesc access = {};
  access.location = properties.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CGCONFORM_CUDA_TRY(driver().set_access(address, chunk_bytes_, &access, 1));
}

void ExpandableSegmentSource::unmap_chunk(CUdeviceptr address) {
  if (mapped_.erase(address) == 0) return;
  CGCONFORM_CUDA_TRY(driver().unmap(address, chunk_bytes_));
}

Segment ExpandableSegmentSource::allocate(std::int64_t bytes) {
  const std::size_t wanted = round_up(static_cast<std::size_t>(bytes), chunk_bytes_);
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
  return {pointer_of(start), static_cast<std::int64_t>(wanted)};
}

void ExpandableSegmentSource::release(const Segment& segment) {
  release_quietly_after_the_end([&] {
    // Unlike cudaFree, unmapping does not wait for work that still uses the memory.
    CGCONFORM_CUDA_TRY(cudaDeviceSynchronize());
    unmap(segment);
  });
}

void ExpandableSegmentSource::unmap(const Segment& segment) {
  const std::lock_guard lock(mutex_);
  const auto start = reinterpret_cast<CUdeviceptr>(segment.data);
  const std::size_t bytes = round_up(static_cast<std::size_t>(segment.bytes), chunk_bytes_);
  for (std::size_t offset = 0; offset < bytes; offset += chunk_bytes_) unmap_chunk(start + offset);
}

AddressRange ExpandableSegmentSource::range() const {
  return {pointer_of(base_), reserved_bytes_};
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

#include "workloads/device/cuda/stream_ordered_source.hpp"

#include "workloads/device/cuda/cuda_error.hpp"

namespace cgconform::workloads::cuda {

StreamOrderedSegmentSource::StreamOrderedSegmentSource(int device) {
  cudaMemPoolProps properties = {};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.location.id = device;
  cudaMemPool_t pool = nullptr;
  CGCONFORM_CUDA_TRY(cudaMemPoolCreate(&pool, &properties));
  pool_.reset(pool);
}

Segment StreamOrderedSegmentSource::allocate(std::int64_t bytes) {
  void* data = nullptr;
  CGCONFORM_CUDA_TRY(
      cudaMallocFromPoolAsync(&data, static_cast<std::size_t>(bytes), pool_.get(), own_stream()));
  // Other streams may use the segment at once.
  CGCONFORM_CUDA_TRY(cudaStreamSynchronize(own_stream()));
  const std::lock_guard lock(mutex_);
  live_[static_cast<std::byte*>(data)] = bytes;
  return {static_cast<std::byte*>(data), bytes};
}

void StreamOrderedSegmentSource::release(const Segment& segment) {
  {
    const std::lock_guard lock(mutex_);
    if (live_.erase(segment.data) == 0) return;  // unmapped before
  }
  release_quietly_after_the_end([&] {
    // The pool knows nothing of the streams that used the segment.
    CGCONFORM_CUDA_TRY(cudaDeviceSynchronize());
    CGCONFORM_CUDA_TRY(cudaFreeAsync(segment.data, own_stream()));
    CGCONFORM_CUDA_TRY(cudaStreamSynchronize(own_stream()));
  });
}

bool StreamOrderedSegmentSource::owns(const void* address) const {
  const std::lock_guard lock(mutex_);
  const auto* byte = static_cast<const std::byte*>(address);
  auto found = live_.upper_bound(byte);
  if (found == live_.begin()) return false;
  --found;
  return byte < found->first + found->second;
}

std::int64_t StreamOrderedSegmentSource::bytes_in_use() const {
  const std::lock_guard lock(mutex_);
  std::int64_t total = 0;
  for (const auto& [data, bytes] : live_) total += bytes;
  return total;
}

}  // namespace cgconform::workloads::cuda

#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string_view>

#include "workloads/device/cuda/cuda_segment_source.hpp"

namespace cgconform::workloads::cuda {

using MemoryPoolHandle = UniqueHandle<cudaMemPool_t, cudaMemPoolDestroy>;

/// Segments from a stream-ordered memory pool of the runtime (cudaMallocAsync). They are made on a
/// stream of their own, which never captures: in a capture the call would become an allocation
/// node, and the memory the graph's. The pool keeps nothing that was given back.
class StreamOrderedSegmentSource final : public CudaSegmentSource {
 public:
  explicit StreamOrderedSegmentSource(int device);

  std::string_view name() const override { return "cudaMallocAsync"; }
  Segment allocate(std::int64_t bytes) override;
  void release(const Segment& segment) override;
  void unmap(const Segment& segment) override { release(segment); }
  bool owns(const void* address) const override;
  std::int64_t bytes_in_use() const override;
  AddressRange range() const override { return {}; }

 private:
  MemoryPoolHandle pool_;
  mutable std::mutex mutex_;
  std::map<const std::byte*, std::int64_t> live_;
};

}  // namespace cgconform::workloads::cuda

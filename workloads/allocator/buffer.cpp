#include <exception>
#include <utility>

#include "workloads/allocator/caching_allocator.hpp"

namespace cgconform::workloads {

Buffer::Buffer(CachingAllocator& allocator, Stream& stream, PoolId pool, DType dtype,
               const Shape& shape, std::string label)
    : allocator_(&allocator),
      stream_(&stream),
      block_(allocator.allocate(shape.elements() * dtype_bytes(dtype), stream, pool,
                                std::move(label))),
      view_{block_.data, dtype, shape} {}

Buffer::~Buffer() {
  reset();
}

Buffer::Buffer(Buffer&& other) noexcept
    : allocator_(std::exchange(other.allocator_, nullptr)),
      stream_(std::exchange(other.stream_, nullptr)),
      block_(std::exchange(other.block_, {})),
      view_(std::exchange(other.view_, {})) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this == &other) return *this;
  reset();
  allocator_ = std::exchange(other.allocator_, nullptr);
  stream_ = std::exchange(other.stream_, nullptr);
  block_ = std::exchange(other.block_, {});
  view_ = std::exchange(other.view_, {});
  return *this;
}

void Buffer::reset() {
  CachingAllocator* allocator = std::exchange(allocator_, nullptr);
  if (allocator == nullptr) return;
  allocator->free(block_, *std::exchange(stream_, nullptr));
  block_ = {};
  view_ = {};
}

}  // namespace cgconform::workloads

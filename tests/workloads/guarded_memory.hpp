#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <stdexcept>

#include <sys/mman.h>
#include <unistd.h>

namespace cgconform::workloads::test {

/// Memory between two inaccessible pages, ending at the second: an access past either end faults,
/// and so does a write once the memory is made read-only.
class GuardedMemory {
 public:
  explicit GuardedMemory(std::span<const std::byte> content) : bytes_(content.size()) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    inner_ = (bytes_ + page - 1) / page * page;
    outer_ = inner_ + 2 * page;
    void* mapping = mmap(nullptr, outer_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED) throw std::runtime_error("mmap failed");
    mapping_ = static_cast<std::byte*>(mapping);
    protect(PROT_READ | PROT_WRITE);
    std::memcpy(data(), content.data(), bytes_);
  }
  ~GuardedMemory() { munmap(mapping_, outer_); }
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;

  std::byte* data() { return mapping_ + (outer_ - inner_) / 2 + inner_ - bytes_; }
  std::span<const std::byte> bytes() { return {data(), bytes_}; }
  void make_read_only() { protect(PROT_READ); }

 private:
  void protect(int protection) {
    if (mprotect(mapping_ + (outer_ - inner_) / 2, inner_, protection) != 0) {
      throw std::runtime_error("mprotect failed");
    }
  }

  std::size_t bytes_;
  std::size_t inner_ = 0;
  std::size_t outer_ = 0;
  std::byte* mapping_ = nullptr;
};

}  // namespace cgconform::workloads::test

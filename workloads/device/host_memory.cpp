#include "workloads/device/host_memory.hpp"

#include <malloc.h>

namespace cgconform::workloads {

void keep_freed_host_memory() {
  constexpr int largest_block = 1 << 25;  // the most that the library accepts
  constexpr int many_bytes = 1 << 28;
  constexpr int bytes_at_once = 1 << 22;
  ::mallopt(M_MMAP_THRESHOLD, largest_block);
  ::mallopt(M_TRIM_THRESHOLD, many_bytes);
  ::mallopt(M_TOP_PAD, bytes_at_once);
}

}  // namespace cgconform::workloads

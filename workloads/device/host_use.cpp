#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>

#include <malloc.h>
#include <unistd.h>

#include "workloads/device/resource_use.hpp"

/// Of a sanitizer's allocator, which stands in for the C library's where it is linked.
// NOLINTNEXTLINE(bugprone-reserved-identifier, readability-identifier-naming): their own name
extern "C" std::size_t __sanitizer_get_current_allocated_bytes() __attribute__((weak));

namespace cgconform::workloads {
namespace {

std::int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::int64_t size = 0;
  std::int64_t resident = 0;
  file >> size >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

std::int64_t heap_bytes() {
  if (&__sanitizer_get_current_allocated_bytes != nullptr) {
    return static_cast<std::int64_t>(__sanitizer_get_current_allocated_bytes());
  }
  const struct mallinfo2 info = ::mallinfo2();
  return static_cast<std::int64_t>(info.uordblks + info.hblkhd);
}

std::int64_t pinned_bytes() {
  std::ifstream file("/proc/self/status");
  constexpr std::int64_t kibibyte = 1024;
  std::int64_t bytes = 0;
  for (std::string word; file >> word;) {
    if (word != "VmLck:" && word != "VmPin:") continue;
    std::int64_t kibibytes = 0;
    file >> kibibytes;
    bytes += kibibytes * kibibyte;
  }
  return bytes;
}

std::int64_t file_descriptors() {
  std::error_code error;
  const std::filesystem::directory_iterator open("/proc/self/fd", error);
  // The iterator's own descriptor is counted each time, which no slope sees.
  return error ? 0 : std::distance(begin(open), end(open));
}

}  // namespace

HostUse host_use() {
  return {.resident_bytes = resident_bytes(),
          .heap_bytes = heap_bytes(),
          .pinned_bytes = pinned_bytes(),
          .file_descriptors = file_descriptors()};
}

}  // namespace cgconform::workloads

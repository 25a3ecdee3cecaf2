#include "workloads/device/cuda/nccl_log.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

namespace cgconform::workloads::cuda {

std::vector<std::string> nccl_warnings(std::string_view log) {
  constexpr std::string_view mark = "NCCL WARN ";
  std::vector<std::string> warnings;
  while (!log.empty()) {
    const std::size_t end = log.find('\n');
    const std::string_view line = log.substr(0, end);
    const std::size_t at = line.find(mark);
    if (at != std::string_view::npos) {
      std::string warning(line.substr(at + mark.size()));
      if (std::find(warnings.begin(), warnings.end(), warning) == warnings.end()) {
        warnings.push_back(std::move(warning));
      }
    }
    log = end == std::string_view::npos ? std::string_view{} : log.substr(end + 1);
  }
  return warnings;
}

NcclLog::NcclLog() {
  if (std::getenv("NCCL_DEBUG_FILE") != nullptr) return;
  descriptor_ = ::memfd_create("nccl log", MFD_CLOEXEC);
  if (descriptor_ < 0) return;
  ::setenv("NCCL_DEBUG", "WARN", 0);
  ::setenv("NCCL_DEBUG_FILE", fmt::format("/proc/self/fd/{}", descriptor_).c_str(), 1);
}

NcclLog::~NcclLog() {
  if (descriptor_ < 0) return;
  ::unsetenv("NCCL_DEBUG_FILE");
  ::close(descriptor_);
}

std::vector<std::string> NcclLog::take_warnings() {
  if (descriptor_ < 0) return {};
  std::string text;
  std::array<char, 4096> chunk{};
  while (true) {
    const ssize_t count = ::pread(descriptor_, chunk.data(), chunk.size(), read_);
    if (count <= 0) break;
    text.append(chunk.data(), static_cast<std::size_t>(count));
    read_ += count;
  }
  if (!text.empty()) std::fputs(text.c_str(), stderr);
  return nccl_warnings(text);
}

}  // namespace cgconform::workloads::cuda

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cgconform::workloads::cuda {

/// The warnings in a piece of NCCL's log, without its prefix of host, process and thread; each
/// once, in order.
std::vector<std::string> nccl_warnings(std::string_view log);

/// Receives what NCCL writes to its debug log, in memory. NCCL reads the variables that say where
/// at its first use, so this is made before it; where the user named a file, that file is left
/// alone and nothing is received.
class NcclLog {
 public:
  NcclLog();
  ~NcclLog();
  NcclLog(const NcclLog&) = delete;
  NcclLog& operator=(const NcclLog&) = delete;

  /// The warnings since the last call. What NCCL wrote is repeated on standard error, which is the
  /// worker's log.
  std::vector<std::string> take_warnings();

 private:
  int descriptor_ = -1;
  std::int64_t read_ = 0;
};

}  // namespace cgconform::workloads::cuda

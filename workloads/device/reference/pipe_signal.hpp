#pragma once

#include <csignal>

namespace cgconform::workloads::reference {

/// Blocks SIGPIPE in the calling thread, and in threads it creates, for its lifetime: Gloo writes
/// to sockets whose peer may be gone, and that must be an error here and not the end of the
/// process.
class PipeSignalBlock {
 public:
  PipeSignalBlock();
  ~PipeSignalBlock();
  PipeSignalBlock(const PipeSignalBlock&) = delete;
  PipeSignalBlock& operator=(const PipeSignalBlock&) = delete;

 private:
  sigset_t former_;
};

}  // namespace cgconform::workloads::reference

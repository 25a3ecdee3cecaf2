#pragma once

#include <thread>

#include "harness/file_descriptor.hpp"

namespace cgconform::harness {

/// Ends this process, and its whole group, the moment the other end of the control channel closes:
/// a worker does not outlive its supervisor, whatever it is doing.
class Lifeline {
 public:
  explicit Lifeline(int channel_descriptor);
  ~Lifeline();
  Lifeline(const Lifeline&) = delete;
  Lifeline& operator=(const Lifeline&) = delete;
  Lifeline(Lifeline&&) = delete;
  Lifeline& operator=(Lifeline&&) = delete;

 private:
  FileDescriptor stop_;
  std::thread watcher_;
};

}  // namespace cgconform::harness

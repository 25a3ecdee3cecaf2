#pragma once

#include <csignal>

namespace cgconform::harness {

/// Ignores one signal for the life of the object, then restores what stood before.
class IgnoredSignal {
 public:
  explicit IgnoredSignal(int signal) : signal_(signal) {
    struct sigaction ignore {};
    ignore.sa_handler = SIG_IGN;
    sigemptyset(&ignore.sa_mask);
    sigaction(signal_, &ignore, &before_);
  }
  ~IgnoredSignal() { sigaction(signal_, &before_, nullptr); }
  IgnoredSignal(const IgnoredSignal&) = delete;
  IgnoredSignal& operator=(const IgnoredSignal&) = delete;
  IgnoredSignal(IgnoredSignal&&) = delete;
  IgnoredSignal& operator=(IgnoredSignal&&) = delete;

 private:
  int signal_;
  struct sigaction before_ {};
};

}  // namespace cgconform::harness

#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "workloads/device/communicator.hpp"

namespace cgconform::workloads {

/// Ends communicators without ever waiting for a graph: a library's own call would, without bound.
/// A communicator that graphs still hold is kept, and ended once they are gone.
class CommunicatorKeeper {
 public:
  CommunicatorKeeper() = default;
  ~CommunicatorKeeper();
  CommunicatorKeeper(const CommunicatorKeeper&) = delete;
  CommunicatorKeeper& operator=(const CommunicatorKeeper&) = delete;

  /// Ends it now, or keeps it where a graph holds it; true where it was ended. Throws DeviceError
  /// where ending it fails.
  bool retire(std::unique_ptr<Communicator> communicator,
              CommunicatorEnd how = CommunicatorEnd::destroy);
  /// Ends those that no graph holds any more.
  void end_unused();
  /// How many are kept.
  std::size_t deferred() const { return deferred_.size(); }

 private:
  std::vector<std::pair<std::unique_ptr<Communicator>, CommunicatorEnd>> deferred_;
};

}  // namespace cgconform::workloads

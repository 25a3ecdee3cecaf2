#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>

#include "workloads/device/errors.hpp"
#include "workloads/device/graph.hpp"

namespace cgconform::workloads::cuda {

/// A call made in a capture: what it does and touches. One call may add several nodes (a library's
/// kernels, its host and event nodes); they count as one.
struct CapturedCall {
  NodeKind kind = NodeKind::kernel;
  std::string label;
  std::string_view op_name;
  std::vector<Operand> operands;
  std::string communicator;  ///< name, of communications
  std::int32_t rank = -1;    ///< this process's in the communicator
  std::int32_t peer = -1;    ///< the other rank of a message
  /// Its nodes, counted in the order in which the runtime made those of the graph.
  std::size_t first_node = 0;
  std::size_t end_node = 0;
};

/// A communicator as graphs, streams and the device see it.
class CommunicatorLink {
 public:
  virtual ~CommunicatorLink() = default;
  virtual const std::string& name() const = 0;
  virtual std::chrono::milliseconds timeout() const = 0;
  /// First asynchronous error, or success.
  virtual ErrorCategory async_error() const = 0;
  /// Makes its kernels end; returns at once. Nothing can be done with it afterwards.
  virtual void abort() = 0;
  /// True where it was closed or aborted: graphs that use it must not be launched.
  virtual bool closed() const = 0;
};

/// The calls of one capture in order, and whatever must live as long as the graph does (host
/// functions, communicator references).
struct CaptureRecord {
  std::vector<CapturedCall> calls;
  std::vector<std::shared_ptr<void>> kept_alive;
  std::set<std::shared_ptr<CommunicatorLink>> communicators;  ///< those that the graph uses

  /// Throws communicator_invalid_usage where one of them was closed.
  void refuse_closed_communicators() const;
};

}  // namespace cgconform::workloads::cuda

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include <cuda_runtime_api.h>

#include "workloads/device/graph.hpp"

namespace cgconform::workloads::cuda {

/// A call made in a capture: what it does and touches. One call may add several nodes (a library's
/// kernels, its host and event nodes); they count as one.
struct CapturedCall {
  NodeKind kind = NodeKind::kernel;
  std::string label;
  std::string_view op_name;
  std::vector<Operand> operands;
};

/// The calls of one capture in order, the call that added each of the runtime's nodes, and whatever
/// must live as long as the graph does (host functions, communicator references).
struct CaptureRecord {
  std::vector<CapturedCall> calls;
  std::unordered_map<cudaGraphNode_t, std::int32_t> call_of_node;
  std::vector<std::shared_ptr<void>> kept_alive;
};

}  // namespace cgconform::workloads::cuda

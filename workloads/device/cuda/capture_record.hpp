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

/// What is known of the nodes that calls of a capture added, by the runtime's node handle, and
/// whatever must live as long as the graph does (host functions, communicator references).
struct CaptureRecord {
  struct Annotation {
    NodeKind kind = NodeKind::kernel;
    std::string label;
    std::string_view op_name;
    std::vector<Operand> operands;
  };
  std::unordered_map<cudaGraphNode_t, Annotation> annotations;
  std::vector<std::shared_ptr<void>> kept_alive;
};

}  // namespace cgconform::workloads::cuda

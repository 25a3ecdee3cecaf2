#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "workloads/device/graph.hpp"
#include "workloads/device/reference/communication.hpp"
#include "workloads/ops/op.hpp"

namespace cgconform::workloads::reference {

/// One unit of device work: an item of a stream, or a node of a graph. Copyable, so that an
/// executable graph holds its own.
struct Command {
  NodeKind kind = NodeKind::kernel;
  OpCall call;                 ///< kernels, copies and fills; else label, operands
  std::function<void()> host;  ///< host functions
  std::shared_ptr<Communication> communication;     ///< collectives and messages
  std::shared_ptr<std::vector<std::byte>> staging;  ///< host bytes of a pageable upload

  std::string_view op_name() const { return call.op != nullptr ? call.op->name : "host_function"; }
};

Command make_copy(const TensorView& destination, const TensorView& source, std::string label);
Command make_fill(const TensorView& destination, std::uint8_t byte, std::string label);
/// Reads `host` when it runs.
Command make_upload(const TensorView& destination, const void* host, std::string label);
/// Writes `host` when it runs.
Command make_download(void* host, const TensorView& source);
Command make_host_function(std::function<void()> function, std::string label);

/// Runs a command that is not a communication. Throws what the kernel throws.
void run_command(const Command& command);

}  // namespace cgconform::workloads::reference

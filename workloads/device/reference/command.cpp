#include "workloads/device/reference/command.hpp"

#include <array>
#include <cstring>
#include <utility>

namespace cgconform::workloads::reference {
namespace {

std::size_t byte_count(const TensorView& tensor) {
  return static_cast<std::size_t>(tensor.bytes());
}

void copy_kernel(const OpCall& call) {
  const std::size_t bytes = byte_count(call.operand(0));
  if (bytes > 0) std::memmove(call.operand(0).data, call.operand(1).data, bytes);
}

void fill_kernel(const OpCall& call) {
  const std::size_t bytes = byte_count(call.operand(0));
  if (bytes > 0) std::memset(call.operand(0).data, call.params.as<std::uint8_t>(), bytes);
}

void upload_kernel(const OpCall& call) {
  const std::size_t bytes = byte_count(call.operand(0));
  if (bytes > 0) std::memcpy(call.operand(0).data, call.params.as<const void*>(), bytes);
}

void download_kernel(const OpCall& call) {
  const std::size_t bytes = byte_count(call.operand(0));
  if (bytes > 0) std::memcpy(call.params.as<void*>(), call.operand(0).data, bytes);
}

constexpr std::array<OperandDeclaration, 2> copy_operands{
    {{"destination", Access::write}, {"source", Access::read}}};
constexpr std::array<OperandDeclaration, 1> destination_operand{{{"destination", Access::write}}};
constexpr std::array<OperandDeclaration, 1> source_operand{{{"source", Access::read}}};

constexpr OpDeclaration copy_op{"copy", copy_operands, copy_kernel, nullptr};
constexpr OpDeclaration fill_op{"fill", destination_operand, fill_kernel, nullptr};
constexpr OpDeclaration upload_op{"upload", destination_operand, upload_kernel, nullptr};
constexpr OpDeclaration download_op{"download", source_operand, download_kernel, nullptr};

}  // namespace

Command make_copy(const TensorView& destination, const TensorView& source, std::string label) {
  const std::array<TensorView, 2> tensors{destination, source};
  return {.kind = NodeKind::copy, .call = make_call(copy_op, tensors, {}, std::move(label))};
}

Command make_fill(const TensorView& destination, std::uint8_t byte, std::string label) {
  return {.kind = NodeKind::fill,
          .call = make_call(fill_op, {&destination, 1}, OpParams::of(byte), std::move(label))};
}

Command make_upload(const TensorView& destination, const void* host, std::string label) {
  return {.kind = NodeKind::copy,
          .call = make_call(upload_op, {&destination, 1}, OpParams::of(host), std::move(label))};
}

Command make_download(void* host, const TensorView& source) {
  return {.kind = NodeKind::copy,
          .call = make_call(download_op, {&source, 1}, OpParams::of(host), "download")};
}

Command make_host_function(std::function<void()> function, std::string label) {
  Command command{.kind = NodeKind::host, .host = std::move(function)};
  command.call.label = std::move(label);
  return command;
}

void run_command(const Command& command) {
  if (command.kind == NodeKind::host) {
    command.host();
  } else {
    command.call.op->reference(command.call);
  }
}

}  // namespace cgconform::workloads::reference

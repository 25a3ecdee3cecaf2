#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "workloads/device/communicator.hpp"
#include "workloads/device/errors.hpp"
#include "workloads/device/graph.hpp"
#include "workloads/device/progress.hpp"
#include "workloads/device/tensor.hpp"

namespace cgconform::workloads {
namespace {

struct DTypeRow {
  std::string_view name;
  std::int64_t bytes = 0;
};

// In the order of the enumeration.
constexpr std::array<DTypeRow, 8> dtype_rows{{{"fp32", 4},
                                              {"fp64", 8},
                                              {"bf16", 2},
                                              {"fp16", 2},
                                              {"int32", 4},
                                              {"int64", 8},
                                              {"uint64", 8},
                                              {"uint8", 1}}};

constexpr std::array<std::string_view, 6> node_kind_names{"kernel", "copy",          "fill",
                                                          "host",   "communication", "empty"};

constexpr std::array<std::string_view, 9> phase_names{
    "idle", "setup", "eager", "warmup", "capture", "instantiate", "replay", "verify", "teardown"};

constexpr std::array<std::pair<ErrorCategory, std::string_view>, 25> category_names{{
    {ErrorCategory::success, "success"},
    {ErrorCategory::invalid_value, "invalid_value"},
    {ErrorCategory::memory_allocation, "memory_allocation"},
    {ErrorCategory::invalid_resource_handle, "invalid_resource_handle"},
    {ErrorCategory::illegal_state, "illegal_state"},
    {ErrorCategory::not_ready, "not_ready"},
    {ErrorCategory::illegal_address, "illegal_address"},
    {ErrorCategory::launch_failure, "launch_failure"},
    {ErrorCategory::not_permitted, "not_permitted"},
    {ErrorCategory::not_supported, "not_supported"},
    {ErrorCategory::stream_capture_unsupported, "stream_capture_unsupported"},
    {ErrorCategory::stream_capture_invalidated, "stream_capture_invalidated"},
    {ErrorCategory::stream_capture_merge, "stream_capture_merge"},
    {ErrorCategory::stream_capture_unmatched, "stream_capture_unmatched"},
    {ErrorCategory::stream_capture_unjoined, "stream_capture_unjoined"},
    {ErrorCategory::stream_capture_isolation, "stream_capture_isolation"},
    {ErrorCategory::stream_capture_implicit, "stream_capture_implicit"},
    {ErrorCategory::captured_event, "captured_event"},
    {ErrorCategory::stream_capture_wrong_thread, "stream_capture_wrong_thread"},
    {ErrorCategory::graph_exec_update_failure, "graph_exec_update_failure"},
    {ErrorCategory::communicator_error, "communicator_error"},
    {ErrorCategory::communicator_mismatch, "communicator_mismatch"},
    {ErrorCategory::communicator_timeout, "communicator_timeout"},
    {ErrorCategory::communicator_invalid_usage, "communicator_invalid_usage"},
    {ErrorCategory::communicator_order, "communicator_order"},
}};

}  // namespace

std::int64_t dtype_bytes(DType dtype) {
  return dtype_rows.at(static_cast<std::size_t>(dtype)).bytes;
}

std::string_view dtype_name(DType dtype) {
  return dtype_rows.at(static_cast<std::size_t>(dtype)).name;
}

std::string_view node_kind_name(NodeKind kind) {
  return node_kind_names.at(static_cast<std::size_t>(kind));
}

std::string_view phase_name(Phase phase) {
  return phase_names.at(static_cast<std::size_t>(phase));
}

std::string_view communicator_end_name(CommunicatorEnd end) {
  constexpr std::array<std::string_view, 3> names{"destroy", "finalize", "abort"};
  return names.at(static_cast<std::size_t>(end));
}

std::string_view error_category_name(ErrorCategory category) {
  for (const auto& [row, name] : category_names) {
    if (row == category) return name;
  }
  return "unknown";
}

DeviceError::DeviceError(ErrorCategory category, std::string call, const std::string& message)
    : Error(fmt::format("{}: {} ({}, {})", call, message, error_category_name(category),
                        static_cast<std::int32_t>(category))),
      category_(category),
      call_(std::move(call)) {}

bool ends_context(ErrorCategory category) {
  const auto number = static_cast<std::int32_t>(category);
  // Assertion, hardware stack error, illegal instruction, misaligned address, invalid address
  // space, invalid program counter, launch failure; ECC and NVLink errors, launch timeout.
  return category == ErrorCategory::illegal_address || (number >= 710 && number <= 719) ||
         number == 214 || number == 220 || number == 702;
}

}  // namespace cgconform::workloads

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "matrix/error.hpp"

namespace cgconform::workloads {

/// Category of a device error. The capture categories carry CUDA's own numbers, so that both
/// devices and the table of LIF-02 speak of the same thing.
enum class ErrorCategory : std::int32_t {
  success = 0,
  invalid_value = 1,
  memory_allocation = 2,
  invalid_resource_handle = 400,
  illegal_state = 401,  ///< the call does not fit the state, as beginning a capture twice
  not_ready = 600,
  illegal_address = 700,
  launch_failure = 719,
  not_permitted = 800,  ///< a device call from inside a host function
  not_supported = 801,
  stream_capture_unsupported = 900,
  stream_capture_invalidated = 901,
  stream_capture_merge = 902,
  stream_capture_unmatched = 903,
  stream_capture_unjoined = 904,
  stream_capture_isolation = 905,
  stream_capture_implicit = 906,
  captured_event = 907,
  stream_capture_wrong_thread = 908,
  graph_exec_update_failure = 910,
  unknown = 999,
  communicator_error = 10001,     ///< a peer or the transport failed
  communicator_mismatch = 10002,  ///< peers disagree on op, bytes, order or captured-or-eager
  communicator_timeout = 10003,
  communicator_invalid_usage = 10004,
  communicator_order = 10005,  ///< peers launch communicators in different orders
};

std::string_view error_category_name(ErrorCategory category);

/// True for an error after which the device answers nothing but this error until its process ends.
bool ends_context(ErrorCategory category);

/// An error of a device call: category, the call, and what it was doing.
class DeviceError : public Error {
 public:
  DeviceError(ErrorCategory category, std::string call, const std::string& message);
  ErrorCategory category() const { return category_; }
  const std::string& call() const { return call_; }

 private:
  ErrorCategory category_;
  std::string call_;
};

}  // namespace cgconform::workloads

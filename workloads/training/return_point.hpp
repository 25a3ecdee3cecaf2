#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "matrix/error.hpp"

namespace cgconform::workloads {

/// Where the code of a training step returns early, as code of a user may.
enum class ReturnPoint : std::uint8_t {
  never,
  in_step,        ///< in an eager backward
  in_capture,     ///< in a captured backward
  before_replay,  ///< between capture and first replay
  in_flight,      ///< right after a launch of a graph
};

std::string_view return_point_name(ReturnPoint point);
/// What a leg that returned at `point` says of its end.
std::string early_return_text(ReturnPoint point);

/// Unwinds a training that returns early.
class EarlyReturnError : public Error {
 public:
  using Error::Error;
};

}  // namespace cgconform::workloads

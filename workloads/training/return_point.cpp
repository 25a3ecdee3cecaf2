#include "workloads/training/return_point.hpp"

#include <fmt/format.h>

namespace cgconform::workloads {

std::string_view return_point_name(ReturnPoint point) {
  switch (point) {
    case ReturnPoint::in_step:
      return "in an eager step";
    case ReturnPoint::in_capture:
      return "in a capture";
    case ReturnPoint::before_replay:
      return "between capture and replay";
    case ReturnPoint::in_flight:
      return "with a replay in flight";
    case ReturnPoint::never:
      break;
  }
  return "never";
}

std::string early_return_text(ReturnPoint point) {
  return fmt::format("training returns early, {}", return_point_name(point));
}

}  // namespace cgconform::workloads

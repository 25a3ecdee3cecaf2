#include "suites/child_program.hpp"

namespace cgconform::suites {

std::string_view child_end_name(ChildEnd end) {
  switch (end) {
    case ChildEnd::exited:
      return "ended";
    case ChildEnd::failed:
      return "failed";
    case ChildEnd::hung:
      return "hung";
    case ChildEnd::no_start:
      break;
  }
  return "did not start";
}

}  // namespace cgconform::suites

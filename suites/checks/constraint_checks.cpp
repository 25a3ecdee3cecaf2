#include "suites/checks/families.hpp"

namespace cgconform::suites::checks {

std::span<const CheckDefinition> constraint_checks() {
  return {};
}

}  // namespace cgconform::suites::checks

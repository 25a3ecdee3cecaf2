#include "harness/system_error.hpp"

#include <cerrno>
#include <system_error>

#include <fmt/format.h>

namespace cgconform::harness {

std::string system_reason(int number) {
  return std::generic_category().message(number);
}

void throw_system_error(const std::string& what) {
  const int number = errno;
  throw EnvironmentError(fmt::format("{}: {}", what, system_reason(number)));
}

}  // namespace cgconform::harness

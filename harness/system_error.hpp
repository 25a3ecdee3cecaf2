#pragma once

#include <string>

#include "matrix/error.hpp"

namespace cgconform::harness {

/// A fault of the machine or its set-up: the program ends with exit code 3.
class EnvironmentError : public Error {
 public:
  using Error::Error;
};

/// The system's reason for error number `number`.
std::string system_reason(int number);

/// Throws EnvironmentError: what was tried, the system's reason from errno.
[[noreturn]] void throw_system_error(const std::string& what);

}  // namespace cgconform::harness

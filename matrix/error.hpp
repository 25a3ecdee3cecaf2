#pragma once

#include <stdexcept>
#include <string>

namespace cgconform {

/// Base of every error this project throws. `what()` is one message: place, reason, remedy.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Something the user wrote cannot be used: the program ends with exit code 2.
/// The message names where (file, line, column, axis or option), why, and the nearest valid choice.
class InputError : public Error {
 public:
  using Error::Error;
};

/// A defect of cgconform itself: the program ends with exit code 7.
class InternalError : public Error {
 public:
  using Error::Error;
};

}  // namespace cgconform

#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace cgconform::harness {

/// Names for code addresses of another process, from the ELF files of its memory map: works after
/// that process is gone, and without ptrace.
class StackSymbols {
 public:
  /// `map`: lines in the format of /proc/PID/maps.
  explicit StackSymbols(const std::string& map);
  ~StackSymbols();
  StackSymbols(const StackSymbols&) = delete;
  StackSymbols& operator=(const StackSymbols&) = delete;
  StackSymbols(StackSymbols&&) = delete;
  StackSymbols& operator=(StackSymbols&&) = delete;

  /// "function (file:line) in module", as much of it as is known, else the address.
  std::string describe(std::uint64_t address) const;

 private:
  struct Session;
  std::unique_ptr<Session> session_;
};

}  // namespace cgconform::harness

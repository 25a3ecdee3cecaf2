#pragma once

#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <system_error>
#include <vector>

#include <nlohmann/json.hpp>
#include <unistd.h>

#include "tests/program_run.hpp"

namespace cgconform::testing {

/// A variable that everything a run starts inherits.
inline std::string run_mark() {
  static int runs = 0;
  return "CGTEST_RUN=" + std::to_string(::getpid()) + "." + std::to_string(++runs);
}

inline std::vector<std::string> marked_variables(const std::string& mark) {
  std::vector<std::string> variables = launcher_variables();
  variables.push_back(mark);
  return variables;
}

inline bool is_program(pid_t process, const std::string& name) {
  std::error_code error;
  const auto program = std::filesystem::read_symlink(
      std::filesystem::path("/proc") / std::to_string(process) / "exe", error);
  return !error && program.filename() == name;
}

/// Processes of a run that are `program`.
inline std::vector<pid_t> programs_of(const std::string& mark, const std::string& program) {
  std::vector<pid_t> found;
  for (const pid_t process : processes_with(mark)) {
    if (is_program(process, program)) found.push_back(process);
  }
  return found;
}

inline std::vector<nlohmann::json> results_in(const std::filesystem::path& report) {
  std::ifstream file(report / "results.jsonl");
  std::vector<nlohmann::json> results;
  std::string line;
  while (std::getline(file, line)) results.push_back(nlohmann::json::parse(line));
  return results;
}

}  // namespace cgconform::testing

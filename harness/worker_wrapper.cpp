#include "harness/worker_wrapper.hpp"

#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>
#include <unistd.h>

#include "harness/sanitizer_report.hpp"
#include "harness/system_error.hpp"
#include "matrix/error.hpp"
#include "matrix/nearest_name.hpp"

namespace cgconform::harness {
namespace {

constexpr std::string_view wrapper = "compute-sanitizer";
constexpr std::string_view usual_folder = "/usr/local/cuda/bin";

std::filesystem::path find_wrapper() {
  const char* variable = std::getenv("PATH");
  std::string folders = variable == nullptr ? "" : variable;
  folders += fmt::format(":{}", usual_folder);
  std::string_view rest = folders;
  while (!rest.empty()) {
    const std::size_t end = rest.find(':');
    std::filesystem::path candidate = std::filesystem::path(rest.substr(0, end)) / wrapper;
    if (::access(candidate.c_str(), X_OK) == 0) return candidate;
    rest = end == std::string_view::npos ? std::string_view{} : rest.substr(end + 1);
  }
  throw EnvironmentError(
      fmt::format("--wrap: {} is neither in PATH nor in {}; it comes with the CUDA Toolkit",
                  wrapper, usual_folder));
}

}  // namespace

std::string parse_wrap(const std::string& text) {
  const std::size_t equals = text.find('=');
  const std::string program = text.substr(0, equals);
  if (program != wrapper) {
    throw InputError(
        fmt::format("--wrap: unknown wrapper '{}'; the one there is: {}[=TOOL]", program, wrapper));
  }
  if (equals == std::string::npos) return std::string(sanitizer_tools().front());
  std::string tool = text.substr(equals + 1);
  const auto& tools = sanitizer_tools();
  if (std::find(tools.begin(), tools.end(), tool) == tools.end()) {
    throw InputError(fmt::format("--wrap: {} has no tool '{}'{}", wrapper, tool,
                                 matrix::nearest_hint(tool, tools)));
  }
  return tool;
}

std::vector<std::string> wrapper_words(std::string_view tool, const std::filesystem::path& log) {
  // NCCL and cuBLAS probe the driver with calls that fail; those are no errors of a cell. All
  // kernels are watched, though libraries' races do not count: with racecheck kept to some by
  // --kernel-name, products in 8 bits fault under compute-sanitizer 2025.3, which then ends with an
  // internal error.
  return {find_wrapper().string(),
          "--tool",
          std::string(tool),
          "--report-api-errors",
          "no",
          "--log-file",
          log.string(),
          "--print-limit",
          "100000"};
}

double wrapped_deadline_scale(std::string_view tool) {
  if (tool.empty()) return 1.0;
  return tool == "memcheck" ? 20.0 : 40.0;
}

}  // namespace cgconform::harness

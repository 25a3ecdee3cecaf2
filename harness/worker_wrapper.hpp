#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace cgconform::harness {

/// The tool of `--wrap compute-sanitizer[=TOOL]`; memcheck where none is named. Throws InputError
/// for another wrapper or tool.
std::string parse_wrap(const std::string& text);

/// The words before a worker's program that run it under a tool of compute-sanitizer, which writes
/// its report to `log`. Throws EnvironmentError where compute-sanitizer is found neither in PATH
/// nor in the toolkit's usual place.
std::vector<std::string> wrapper_words(std::string_view tool, const std::filesystem::path& log);

/// How much longer things take under a wrapper; 1 where `tool` is empty.
double wrapped_deadline_scale(std::string_view tool);

}  // namespace cgconform::harness

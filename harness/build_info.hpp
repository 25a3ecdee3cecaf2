#pragma once

#include <string_view>

namespace cgconform::harness {

/// What this binary was built from and with. Every text lives as long as the program.
struct BuildInfo {
  std::string_view version;  ///< project version, for example "0.1.0"
  std::string_view
      git_commit;  ///< 12 digits, "-dirty" when files were changed; "unknown" without git
  std::string_view compiler;    ///< for example "GNU 12.2.0"
  std::string_view build_type;  ///< for example "Release"
  std::string_view sanitizers;  ///< for example "address,undefined"; empty without
  std::string_view cuda;  ///< CUDA Toolkit version compiled in; empty for the reference device only
};

/// Written at build time by cmake/WriteBuildInfo.cmake.
[[nodiscard]] BuildInfo build_info();

}  // namespace cgconform::harness

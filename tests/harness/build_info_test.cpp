#include "harness/build_info.hpp"

#include <gtest/gtest.h>

#include "tests/build_paths.hpp"

namespace cgconform::harness {
namespace {

TEST(BuildInfo, NamesVersionCommitCompilerAndBuildType) {
  const BuildInfo info = build_info();
  EXPECT_EQ(info.version, CGCONFORM_VERSION);
  EXPECT_EQ(info.build_type, CGCONFORM_BUILD_TYPE);
  EXPECT_FALSE(info.git_commit.empty());
  EXPECT_TRUE(info.compiler.starts_with("GNU ") || info.compiler.starts_with("Clang "))
      << info.compiler;
}

}  // namespace
}  // namespace cgconform::harness

#include <array>
#include <cstdio>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include "tests/build_paths.hpp"

namespace cgconform::tooling {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct Outcome {
  int exit_code = -1;
  std::string output;  ///< standard output and standard error
};

/// Runs a script of the project. `command` starts with its file name.
Outcome run_script(const std::string& command, const std::string& environment = "") {
  const std::string line = environment + " '" CGCONFORM_SOURCE_DIR "'/scripts/" + command + " 2>&1";
  Outcome outcome;
  FILE* pipe = popen(line.c_str(), "r");
  if (pipe == nullptr) {
    return outcome;
  }
  std::array<char, 4096> buffer{};
  while (fgets(buffer.data(), buffer.size(), pipe) != nullptr) {
    outcome.output += buffer.data();
  }
  const int status = pclose(pipe);
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return outcome;
}

TEST(InstallScript, NamesThePackagesOnADistributionItDoesNotKnow) {
  const std::string file = ::testing::TempDir() + "cgconform_os_release";
  std::ofstream(file) << "ID=fedora\nVERSION_ID=41\n";
  const Outcome outcome =
      run_script("install_dependencies.sh --check", "CGCONFORM_OS_RELEASE='" + file + "'");
  EXPECT_EQ(outcome.exit_code, 3);
  EXPECT_THAT(outcome.output, HasSubstr("'fedora 41'"));
  EXPECT_THAT(outcome.output, HasSubstr("libopenmpi-dev"));
}

TEST(InstallScript, ListsEveryLibraryTheBuildLooksFor) {
  const Outcome outcome = run_script("install_dependencies.sh --list");
  EXPECT_EQ(outcome.exit_code, 0);
  for (const char* package :
       {"nlohmann-json3-dev", "libcli11-dev", "libfmt-dev", "libyaml-cpp-dev", "libpugixml-dev",
        "libopenmpi-dev", "libxxhash-dev", "libgloo-dev", "libgtest-dev"}) {
    EXPECT_THAT(outcome.output, HasSubstr(package));
  }
}

TEST(SmokeScript, RefusesARankCountThatIsNoNumberBeforeItDoesAnything) {
  const Outcome outcome = run_script("run_smoke.sh --ranks four");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.output, HasSubstr("'four'"));
  EXPECT_THAT(outcome.output, Not(HasSubstr("installed")));
}

TEST(TestScript, RefusesAnUnknownPresetAndNamesTheKnown) {
  const Outcome outcome = run_script("run_tests.sh --preset fast");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.output, HasSubstr("release, debug, asan and tsan"));
}

TEST(TidyScript, SaysHowToBuildWhenThereIsNoBuild) {
  const Outcome outcome = run_script("check_tidy.sh --build '" CGCONFORM_SOURCE_DIR "/docs'");
  EXPECT_EQ(outcome.exit_code, 3);
  EXPECT_THAT(outcome.output, HasSubstr("cmake --preset release"));
}

}  // namespace
}  // namespace cgconform::tooling

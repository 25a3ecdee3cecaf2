#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/build_paths.hpp"
#include "tests/program_run.hpp"
#include "tests/temporary_directory.hpp"

namespace cgconform::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string script = std::string(CGCONFORM_SOURCE_DIR) + "/scripts/bundle.sh";

TEST(Bundle, RunsFromAnotherPlaceWithTheLibrariesItBrought) {
  const TemporaryDirectory directory;
  const fs::path made = directory.path() / "made";
  const ProgramEnd bundled = run_program({script, "--build", CGCONFORM_BINARY_DIR, made.string()},
                                         {}, std::chrono::seconds{120});
  ASSERT_EQ(bundled.exit_code, 0) << bundled.out << bundled.err;

  const fs::path moved = directory.path() / "moved";
  fs::rename(made, moved);
  const std::string program = (moved / "bin" / "cgconform").string();
  const ProgramEnd libraries = run_program({"ldd", program});
  EXPECT_THAT(libraries.out, HasSubstr((moved / "bin" / ".." / "lib" / "libfmt").string()));
  EXPECT_THAT(libraries.out, Not(HasSubstr("not found")));
  EXPECT_THAT(libraries.out, Not(HasSubstr((moved / "bin" / ".." / "lib" / "libmpi").string())))
      << "the node's launcher and library belong together";

  std::vector<std::string> words{"env", "-i", "PATH=/usr/bin:/bin", "HOME=/"};
  for (const std::string& variable : launcher_variables()) words.push_back(variable);
  for (const std::string word :
       {"mpirun", "--oversubscribe", "-np", "1", program.c_str(), "--matrix", "smoke", "--device",
        "reference", "--filter", "pp=1 & pool=shared & impl=local & scope=full_iteration",
        "--report"}) {
    words.push_back(word);
  }
  words.push_back((directory.path() / "report").string());
  const ProgramEnd run = run_program(words);
  EXPECT_EQ(run.exit_code, 0) << run.out << run.err;
}

TEST(Bundle, RefusesAFolderThatIsThereAndABuildThatIsNot) {
  const TemporaryDirectory directory;
  const ProgramEnd taken =
      run_program({script, "--build", CGCONFORM_BINARY_DIR, directory.path().string()});
  EXPECT_EQ(taken.exit_code, 2);
  EXPECT_THAT(taken.err, HasSubstr("exists already"));
  const fs::path nowhere = directory.path() / "nothing";
  const ProgramEnd unbuilt =
      run_program({script, "--build", nowhere.string(), (directory.path() / "out").string()});
  EXPECT_EQ(unbuilt.exit_code, 3);
  EXPECT_THAT(unbuilt.err, HasSubstr("holds no built programs"));
}

}  // namespace
}  // namespace cgconform::testing

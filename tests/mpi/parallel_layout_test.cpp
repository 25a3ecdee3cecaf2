#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/program_run.hpp"
#include "tests/temporary_directory.hpp"

namespace cgconform::testing {
namespace {

using ::testing::HasSubstr;

TEST(ParallelLayouts, OfSmokePassOnFourRanks) {
  const TemporaryDirectory directory;
  const ProgramEnd end =
      run_program(launch_line(4, {"--matrix", "smoke", "--filter", "pp=4 | vp=2 | dp=2", "--report",
                                  (directory.path() / "report").string()}),
                  launcher_variables());
  EXPECT_EQ(end.exit_code, 0) << end.out << end.err;
  EXPECT_THAT(end.out, HasSubstr("passed"));
}

}  // namespace
}  // namespace cgconform::testing

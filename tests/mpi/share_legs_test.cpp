#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/mpi/run_watch.hpp"
#include "tests/program_run.hpp"
#include "tests/temporary_directory.hpp"

namespace cgconform::testing {
namespace {

using nlohmann::json;

/// Legs that cells took from others, of a run of two cells that differ in what they capture.
std::size_t legs_shared_with(const std::vector<std::string>& arguments) {
  const TemporaryDirectory directory;
  const auto report = directory.path() / "report";
  std::vector<std::string> all{"--matrix", "smoke",
                               "--cell",   "impl=local/scope=attn",
                               "--cell",   "impl=local/scope=mlp",
                               "--device", "reference",
                               "--report", report.string()};
  all.insert(all.end(), arguments.begin(), arguments.end());
  const ProgramEnd end = run_program(launch_line(1, all), launcher_variables());
  EXPECT_EQ(end.exit_code, 0) << end.out << end.err;
  std::size_t shared = 0;
  std::size_t passed = 0;
  for (const json& result : results_in(report)) {
    passed += result.at("verdict") == "PASS" ? 1 : 0;
    for (const json& rank : result.at("ranks")) {
      if (rank.contains("shared_legs")) shared += rank.at("shared_legs").size();
    }
  }
  EXPECT_EQ(passed, 2U) << end.out;
  return shared;
}

TEST(ShareLegs, OfCellsThatTrainAlikeAreTakenUnlessTurnedOff) {
  EXPECT_GT(legs_shared_with({}), 0U);
  EXPECT_EQ(legs_shared_with({"--share-legs", "off"}), 0U);
}

}  // namespace
}  // namespace cgconform::testing

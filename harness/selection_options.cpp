#include "harness/selection_options.hpp"

#include <array>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "matrix/error.hpp"

namespace cgconform::harness {
namespace {

constexpr std::array<std::pair<const char*, const char*>, 4> contradictions{{
    {"--soak", "--repeat"},
    {"--soak", "--budget"},
    {"--rerun-failed", "--cell"},
    {"--soak", "--list"},
}};

/// Options that choose among the cells of a matrix, or order them.
constexpr std::array matrix_options{"--shard", "--shuffle", "--rerun-failed", "--allow-empty"};
constexpr std::array run_options{"--budget", "--repeat", "--soak", "--fail-fast", "--max-skips"};

}  // namespace

void add_selection_options(CLI::App& app, TypedSelection& typed) {
  Selection& selection = typed.selection;
  app.add_option("--shard", typed.shard,
                 "run one of N parts of the cells; a cell's part never changes")
      ->type_name("I/N");
  app.add_flag("--shuffle", selection.shuffle, "run the cells in an order dealt by --seed");
  app.add_option("--budget", typed.budget,
                 "start no cell after this time, such as 30m; best coverage of pairs first")
      ->type_name("TIME");
  app.add_option("--repeat", typed.repeat, "run every cell so often")->type_name("N");
  app.add_option("--soak", typed.soak,
                 "run round after round until this time is over, each with a seed of its own")
      ->type_name("TIME");
  app.add_flag("--fail-fast", selection.fail_fast, "start no cell after the first failure");
  app.add_option("--rerun-failed", selection.rerun_failed,
                 "run the cells that failed in an earlier report of the same matrix")
      ->type_name("DIR");
  app.add_flag("--allow-empty", selection.allow_empty,
               "no error where no cell is selected: the run ends with exit code 77");
  app.add_option("--max-skips", typed.max_skips,
                 "exit code 4 where more cells than this are skipped; duplicates do not count")
      ->type_name("N");
}

Selection read_selection(const CLI::App& app, const TypedSelection& typed, bool selftest) {
  const auto given = [&](const char* option) { return app.count(option) > 0; };
  const auto refuse = [&](const char* one, const char* other) {
    throw InputError(fmt::format("{} and {} contradict each other; leave one out", one, other));
  };
  for (const auto& [one, other] : contradictions) {
    if (given(one) && given(other)) refuse(one, other);
  }
  for (const char* option : matrix_options) {
    if (given(option) && given("--mock")) refuse("--mock", option);
  }
  const auto refuse_in_selftest = [&](const char* option) {
    if (!selftest || !given(option)) return;
    throw InputError(fmt::format("selftest has cells of its own; leave {} out", option));
  };
  for (const char* option : matrix_options) refuse_in_selftest(option);
  for (const char* option : run_options) refuse_in_selftest(option);
  Selection selection = typed.selection;
  if (given("--rerun-failed") && selection.rerun_failed.empty()) {
    throw InputError("--rerun-failed: the value is empty; give the folder of a report");
  }
  if (given("--shard")) selection.shard = shard_from(typed.shard);
  if (given("--budget")) selection.budget = time_from("--budget", typed.budget);
  if (given("--repeat")) selection.repeat = count_from("--repeat", typed.repeat, 1);
  if (given("--soak")) selection.soak = time_from("--soak", typed.soak);
  if (given("--max-skips")) selection.max_skips = count_from("--max-skips", typed.max_skips, 0);
  return selection;
}

}  // namespace cgconform::harness

#include "harness/resume.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/command_line.hpp"
#include "matrix/error.hpp"
#include "matrix/matrix.hpp"

namespace cgconform::harness {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view journal_name = "journal.jsonl";
/// Options that say what to run.
constexpr std::array<std::string_view, 5> selecting_options{"matrix", "filter", "cell", "mock",
                                                            "row"};
/// Options whose value may be a file: its content decides, not its name.
constexpr std::array<std::string_view, 2> content_options{"matrix", "mock"};

template <typename Names>
bool is_among(std::string_view name, const Names& names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// The key of a line `key=value` of the deciding options.
std::string_view key_of(std::string_view line) {
  return line.substr(0, line.find('='));
}

/// The key under which an option stands in the deciding options.
std::string deciding_key(std::string option) {
  if (option == "cell") return "filter";
  std::replace(option.begin(), option.end(), '-', '_');
  return option;
}

std::string lines_of(const std::vector<std::string>& lines, std::string_view key) {
  std::vector<std::string> found;
  for (const std::string& line : lines) {
    if (key_of(line) == key) found.push_back(line);
  }
  return found.empty() ? fmt::format("no {}", key) : fmt::format("{}", fmt::join(found, " "));
}

[[noreturn]] void refuse(const fs::path& folder, const std::string& difference) {
  throw InputError(
      fmt::format("--resume {}: this is not the run that was begun there: {}; start it as that run "
                  "was started, or begin another with --report",
                  folder.string(), difference));
}

std::string there_and_here(std::string_view what, const std::string& there,
                           const std::string& here) {
  return fmt::format("{}: {} there, {} here", what, there, here);
}

bool selects_something(const RunOptions& typed) {
  return typed.selftest ||
         std::any_of(typed.given.begin(), typed.given.end(),
                     [](const auto& name) { return is_among(name, selecting_options); });
}

void refuse_other_options(const RunOptions& typed, const RunOptions& before) {
  const std::vector<std::string> here = deciding_options(typed);
  const std::vector<std::string> there = deciding_options(before);
  for (const std::string& name : typed.given) {
    if (is_among(name, content_options)) continue;
    const std::string key = deciding_key(name);
    const std::string mine = lines_of(here, key);
    const std::string theirs = lines_of(there, key);
    if (mine != theirs) refuse(typed.resume, there_and_here("--" + name, theirs, mine));
  }
  if (before.probe) refuse(typed.resume, "that run was one of probes, which begin anew");
  const bool other_cells = !before.mock_plan.empty() || before.selftest;
  if (other_cells && is_among("matrix", typed.given)) {
    refuse(typed.resume, "that run has cells of its own, and --matrix is given here");
  }
  if (before.mock_plan.empty() && is_among("mock", typed.given)) {
    refuse(typed.resume, "that run has a matrix, and --mock is given here");
  }
  if (typed.selftest && !before.selftest) {
    refuse(typed.resume, "that run was no self-test, and selftest is given here");
  }
}

/// A file's name as it was meant where the run was begun.
std::string found_from(const std::string& directory, const std::string& file) {
  const auto builtin = matrix::builtin_matrices();
  const bool is_file = std::none_of(builtin.begin(), builtin.end(),
                                    [&](const auto& matrix) { return matrix.name == file; });
  return is_file ? (fs::path(directory) / file).string() : file;
}

void require_equal(const fs::path& folder, std::string_view what, const std::string& there,
                   const std::string& here) {
  if (there != here) refuse(folder, there_and_here(what, there, here));
}

void require_equal_variables(const fs::path& folder, const JournalHeader& before,
                             const JournalHeader& now) {
  std::set<std::string> names;
  for (const auto& [name, value] : before.variables) names.insert(name);
  for (const auto& [name, value] : now.variables) names.insert(name);
  const auto value_of = [](const JournalHeader& header, const std::string& name) {
    const auto found = header.variables.find(name);
    return found == header.variables.end() ? std::string("unset")
                                           : fmt::format("'{}'", found->second);
  };
  for (const std::string& name : names) {
    require_equal(folder, fmt::format("variable {}", name), value_of(before, name),
                  value_of(now, name));
  }
}

}  // namespace

RunOptions resumed_options(const RunOptions& typed) {
  const fs::path journal = fs::path(typed.resume) / journal_name;
  if (!holds_journal(journal)) {
    if (!selects_something(typed)) {
      throw InputError(
          fmt::format("--resume {}: {} holds no run; name what to run, such as --matrix smoke, to "
                      "begin one there",
                      typed.resume, journal.string()));
    }
    RunOptions begun = typed;
    begun.report = std::exchange(begun.resume, {});
    begun.force = true;
    return begun;
  }
  const JournalHeader header = read_journal(journal).header;
  std::vector<const char*> arguments{typed.program.c_str()};
  for (const std::string& argument : header.arguments) arguments.push_back(argument.c_str());
  RunOptions options =
      parse_command_line(static_cast<int>(arguments.size()), arguments.data()).options;
  refuse_other_options(typed, options);
  options.matrix =
      is_among("matrix", typed.given) ? typed.matrix : found_from(header.directory, options.matrix);
  if (is_among("mock", typed.given)) options.mock_plan = typed.mock_plan;
  options.resume = typed.resume;
  options.resumed_ranks = header.ranks;
  options.report = typed.resume;
  options.force = false;
  options.quiet = typed.quiet;
  options.measure_overhead = typed.measure_overhead;
  options.command_line = typed.command_line;
  return options;
}

void require_same_run(const fs::path& folder, const JournalHeader& before,
                      const JournalHeader& now) {
  if (before.matrix_hash != now.matrix_hash) {
    refuse(folder, before.matrix == now.matrix
                       ? fmt::format("matrix {} has changed since", now.matrix)
                       : there_and_here("matrix", before.matrix, now.matrix));
  }
  require_equal(folder, "seed", std::to_string(before.seed), std::to_string(now.seed));
  require_equal(folder, "program cgconform", before.binary_hash, now.binary_hash);
  require_equal(folder, "program cgconform-worker", before.worker_hash, now.worker_hash);
  require_equal(folder, "device", before.device, now.device);
  std::set<std::string> keys;
  for (const std::string& line : before.options) keys.emplace(key_of(line));
  for (const std::string& line : now.options) keys.emplace(key_of(line));
  for (const std::string& key : keys) {
    if (is_among(key, content_options)) continue;
    require_equal(folder, "options", lines_of(before.options, key), lines_of(now.options, key));
  }
  require_equal_variables(folder, before, now);
}

void require_same_ranks(const RunOptions& options, int ranks) {
  if (options.resume.empty()) return;
  require_equal(options.resume, "ranks", std::to_string(options.resumed_ranks),
                std::to_string(ranks));
}

std::string resume_line(const RunOptions& options, int ranks, const fs::path& folder) {
  return fmt::format("{} --resume {}", program_line(options, ranks), shell_quoted(folder.string()));
}

}  // namespace cgconform::harness

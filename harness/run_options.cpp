#include "harness/run_options.hpp"

#include <cstdlib>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace cgconform::harness {
namespace {

constexpr std::string_view plain_characters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./=:,+-@%";

bool is_default(const RunOptions& options, double RunOptions::*member) {
  return options.*member == RunOptions{}.*member;
}

/// Open MPI's own variable for `--oversubscribe`.
bool may_oversubscribe() {
  const char* value = std::getenv("OMPI_MCA_rmaps_base_oversubscribe");
  return value != nullptr && std::string_view(value) == "1";
}

}  // namespace

std::string_view device_choice_name(DeviceChoice choice) {
  switch (choice) {
    case DeviceChoice::automatic:
      return "auto";
    case DeviceChoice::reference:
      return "reference";
    case DeviceChoice::cuda:
      return "cuda";
  }
  return {};
}

std::string_view guard_pages_name(GuardPagesChoice choice) {
  switch (choice) {
    case GuardPagesChoice::off:
      return "off";
    case GuardPagesChoice::end:
      return "end";
    case GuardPagesChoice::start:
      return "start";
  }
  return {};
}

std::vector<std::string> deciding_options(const RunOptions& options) {
  std::vector<std::string> lines{
      fmt::format("matrix={}", options.matrix),
      fmt::format("scale={}", options.scale),
      fmt::format("filter={}", effective_filter(options)),
      fmt::format("seed={}", options.seed),
      fmt::format("device={}", device_choice_name(options.device)),
      fmt::format("isolation={}", options.isolation == IsolationChoice::cell ? "cell" : "kept"),
      fmt::format("share_legs={}", options.share_legs ? "on" : "off"),
      fmt::format("deadline_scale={}", options.deadline_scale),
      fmt::format("timeout={}", options.cell_deadline.count()),
      fmt::format("sabotage={}", options.sabotage),
      fmt::format("mock={}", options.mock_plan),
      fmt::format("wrap={}", options.wrap),
      fmt::format("guard_pages={}", guard_pages_name(options.guard_pages)),
  };
  for (std::string& line : selection_lines(options.selection)) lines.push_back(std::move(line));
  for (const std::string& rule : options.lifts) lines.push_back(fmt::format("lift={}", rule));
  if (options.probe) lines.emplace_back("probe");
  for (const std::string& probe : options.probes) lines.push_back(fmt::format("probe={}", probe));
  if (options.selftest) lines.emplace_back("selftest");
  for (const std::string& row : options.selftest_rows) lines.push_back(fmt::format("row={}", row));
  for (const std::string& fault : options.faults) lines.push_back(fmt::format("fault={}", fault));
  return lines;
}

std::string effective_filter(const RunOptions& options) {
  std::string cells;
  for (const std::string& cell : options.cells) {
    cells += cells.empty() ? cell : fmt::format(" | {}", cell);
  }
  if (cells.empty()) return options.filter;
  if (options.filter.empty()) return cells;
  return fmt::format("({}) & ({})", options.filter, cells);
}

std::string shell_quoted(const std::string& word) {
  if (!word.empty() && word.find_first_not_of(plain_characters) == std::string::npos) return word;
  std::string quoted = "'";
  for (const char letter : word) {
    if (letter == '\'') {
      quoted += "'\\''";
    } else {
      quoted += letter;
    }
  }
  return quoted + '\'';
}

std::string program_line(const RunOptions& options, int ranks) {
  std::string program = shell_quoted(options.program);
  if (ranks < 2) return program;
  return fmt::format("mpirun{} -np {} {}", may_oversubscribe() ? " --oversubscribe" : "", ranks,
                     program);
}

std::string reproducer_line(const RunOptions& options, const std::string& device, int ranks,
                            const std::string& cell_hash, const std::string& mock) {
  std::string line = program_line(options, ranks);
  if (mock.empty()) {
    line += fmt::format(" --matrix {} --cell {} --seed {} --device {}",
                        shell_quoted(options.matrix), cell_hash, options.seed, device);
    if (!options.scale.empty()) line += fmt::format(" --scale {}", options.scale);
  } else {
    line += fmt::format(" --mock {}", shell_quoted(fmt::format("[{}]", mock)));
  }
  for (const std::string& fault : options.faults) line += fmt::format(" --fault {}", fault);
  if (!options.lifts.empty()) {
    line +=
        fmt::format(" --lift {}", shell_quoted(fmt::format("{}", fmt::join(options.lifts, ","))));
  }
  if (!options.sabotage.empty()) line += fmt::format(" --sabotage {}", options.sabotage);
  if (!options.wrap.empty()) line += fmt::format(" --wrap compute-sanitizer={}", options.wrap);
  if (options.guard_pages != GuardPagesChoice::off) {
    line += fmt::format(" --guard-pages={}", guard_pages_name(options.guard_pages));
  }
  if (options.isolation == IsolationChoice::cell) line += " --isolation=cell";
  if (!options.share_legs) line += " --share-legs=off";
  if (!is_default(options, &RunOptions::deadline_scale)) {
    line += fmt::format(" --deadline-scale {}", options.deadline_scale);
  }
  if (options.cell_deadline != RunOptions{}.cell_deadline) {
    line += fmt::format(" --timeout {}", static_cast<double>(options.cell_deadline.count()) / 1e3);
  }
  return line;
}

}  // namespace cgconform::harness

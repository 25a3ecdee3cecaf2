#include "harness/command_line.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <map>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "harness/build_info.hpp"
#include "harness/check_command.hpp"
#include "harness/exit_codes.hpp"
#include "harness/lift.hpp"
#include "harness/schedule_command.hpp"
#include "harness/selection.hpp"
#include "harness/selection_options.hpp"
#include "harness/switch_names.hpp"
#include "harness/worker_wrapper.hpp"
#include "matrix/error.hpp"
#include "matrix/nearest_name.hpp"
#include "matrix/scale.hpp"

namespace cgconform::harness {
namespace {

constexpr std::array<std::string_view, 4> actions_without_mpi{"--list", "--dry-run", "--help",
                                                              "--version"};

/// The values of a choice, for CLI11's conversion and for messages.
template <typename E>
using Choices = std::vector<std::pair<std::string_view, E>>;

const Choices<DeviceChoice> device_choices{{"auto", DeviceChoice::automatic},
                                           {"reference", DeviceChoice::reference},
                                           {"cuda", DeviceChoice::cuda}};
const Choices<IsolationChoice> isolation_choices{{"kept", IsolationChoice::kept},
                                                 {"cell", IsolationChoice::cell}};
const Choices<bool> switch_choices{{"on", true}, {"off", false}};
const Choices<GuardPagesChoice> guard_pages_choices{{"end", GuardPagesChoice::end},
                                                    {"start", GuardPagesChoice::start}};
const Choices<Action> list_choices{{"text", Action::list}, {"json", Action::list_json}};

template <typename E>
E chosen(std::string_view option, const std::string& word, const Choices<E>& choices) {
  std::vector<std::string_view> known;
  for (const auto& [name, value] : choices) {
    if (name == word) return value;
    known.push_back(name);
  }
  throw InputError(
      fmt::format("{}: unknown value '{}'{}", option, word, matrix::nearest_hint(word, known)));
}

/// What CLI11 fills before it is checked.
struct RawArguments {
  std::string device = "auto";
  std::string isolation = "kept";
  std::string share_legs = "on";
  std::string list;
  bool dry_run = false;
  std::vector<std::string> lifts;
  std::string timeout = "600";
  std::string deadline_scale = "1";
  std::string seed = "1";
  std::string wrap;
  std::string guard_pages;
  TypedSelection selection;
};

std::uint64_t seed_from(const std::string& text) {
  std::uint64_t seed = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, seed);
  if (parsed.ec == std::errc() && parsed.ptr == end) return seed;
  throw InputError(fmt::format("--seed {}: must be a whole number from 0 to {}", text,
                               std::numeric_limits<std::uint64_t>::max()));
}

void add_run_options(CLI::App& app, RunOptions& options, RawArguments& raw) {
  app.add_option("--matrix", options.matrix, "built-in matrix or file that says what to run")
      ->type_name("NAME|FILE")
      ->capture_default_str();
  app.add_option("--scale", options.scale,
                 "sizes of models and batches: tiny (the matrix's own), small, medium or large; "
                 "sizes that the matrix names win")
      ->type_name("SCALE");
  app.add_option("--filter", options.filter,
                 "run the cells that an expression selects: 'impl=local & pp>1 & !recompute=full'")
      ->type_name("EXPR");
  app.add_option("--cell", options.cells, "run one cell, by id or hash; may be repeated")
      ->type_name("ID|HASH");
  add_selection_options(app, raw.selection);
  app.add_option("--seed", raw.seed, "of parameters, data, dropout and replay orders")
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--list", raw.list, "print the cells and what becomes of them; run nothing")
      ->type_name("[=json]")
      ->expected(0, 1)
      ->default_str("text");
  app.add_flag("--dry-run", raw.dry_run,
               "print what would be run, with ranks and cost; run nothing");
  app.add_option("--report", options.report, "folder of the report; .1, .2, ... is added if taken")
      ->type_name("DIR")
      ->capture_default_str();
  app.add_option("--resume", options.resume,
                 "go on with the run in a report folder; takes that run's options")
      ->type_name("DIR");
  app.add_flag("--force", options.force, "replace the report in that folder");
  app.add_option("--device", raw.device,
                 "auto, reference or cuda; auto falls back to the host for smoke only")
      ->type_name("DEVICE")
      ->capture_default_str();
  app.add_option("--isolation", raw.isolation, "kept workers, or a fresh one for each cell")
      ->type_name("kept|cell")
      ->capture_default_str();
  app.add_option("--share-legs", raw.share_legs,
                 "let a cell take an eager leg that an earlier cell ran alike on the same worker")
      ->type_name("on|off")
      ->capture_default_str();
  app.add_option("--timeout", raw.timeout, "what a cell may take in all, in seconds or as 10m")
      ->type_name("TIME")
      ->capture_default_str();
  app.add_option("--deadline-scale", raw.deadline_scale, "multiplies the deadline of every phase")
      ->type_name("FACTOR")
      ->capture_default_str();
  app.add_option(
         "--wrap", raw.wrap,
         "run workers under compute-sanitizer: memcheck, racecheck, initcheck or synccheck; "
         "what it reports becomes verdicts")
      ->type_name("compute-sanitizer[=TOOL]");
  app.add_option("--guard-pages", raw.guard_pages,
                 "give every buffer a mapping of its own, at whose end or start it lies, so that "
                 "accesses out of its bounds fault")
      ->type_name("[=end|start]")
      ->expected(0, 1)
      ->default_str("end");
  app.add_option("--lift", raw.lifts,
                 "run what these rules refuse, to see what they protect against; such a run is no "
                 "statement of conformance")
      ->type_name("RULE[,RULE]");
  app.add_flag("--quiet", options.quiet, "print failures and the summary only");
  // For the runner's own tests and for lines that repeat a cell of the self-test.
  const std::string hidden;
  app.add_option("--mock", options.mock_plan)->group(hidden);
  app.add_flag("--measure-overhead", options.measure_overhead)->group(hidden);
  app.add_option("--fault", options.faults)->group(hidden);
  app.add_option("--sabotage", options.sabotage)->group(hidden);
}

void add_selftest_command(CLI::App& app, RunOptions& options) {
  CLI::App* command = app.add_subcommand(
      "selftest",
      "turn on every fault in turn and see that its check finds it; controls must pass");
  command->fallthrough();
  command->add_option("--row", options.selftest_rows, "run one row of its table; may be repeated")
      ->type_name("ID");
}

void add_probe_command(CLI::App& app, RunOptions& options) {
  CLI::App* command = app.add_subcommand("probe",
                                         "lift the guard of every rule that protects against a "
                                         "physical failure, and see what happens");
  command->fallthrough();
  command->add_option("--only", options.probes, "run one row of its table; may be repeated")
      ->type_name("NAME");
}

std::vector<std::string> long_options(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

[[noreturn]] void refuse_unknown(const CLI::App& app, const std::string& word) {
  std::vector<std::string> names = long_options(app);
  for (const CLI::App* command : app.get_subcommands(nullptr)) names.push_back(command->get_name());
  const std::vector<std::string_view> known(names.begin(), names.end());
  const std::string name = word.substr(0, word.find('='));
  throw InputError(fmt::format("'{}': no such {}{}", word,
                               word.starts_with('-') ? "option" : "command",
                               matrix::nearest_hint(name, known)));
}

/// The subcommand that was parsed, else the program itself.
const CLI::App& parsed_app(const CLI::App& app) {
  const auto parsed = app.get_subcommands();
  return parsed.empty() ? app : *parsed.front();
}

void parse(CLI::App& app, int argc, const char* const* argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::ExtrasError&) {
    const CLI::App& at = parsed_app(app);
    const std::vector<std::string> words = at.remaining(true);
    refuse_unknown(at, words.empty() ? std::string("?") : words.front());
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) throw;  // --help and --version
    throw InputError(fmt::format("{}; see cgconform --help", error.what()));
  }
}

void check_contradictions(const CLI::App& app, const RunOptions& options) {
  constexpr std::array<std::pair<const char*, const char*>, 13> contradictions{{
      {"--list", "--dry-run"},
      {"--list", "--report"},
      {"--list", "--force"},
      {"--dry-run", "--report"},
      {"--dry-run", "--force"},
      {"--resume", "--report"},
      {"--resume", "--force"},
      {"--resume", "--list"},
      {"--resume", "--dry-run"},
      {"--mock", "--matrix"},
      {"--mock", "--scale"},
      {"--mock", "--filter"},
      {"--mock", "--cell"},
  }};
  for (const auto& [one, other] : contradictions) {
    if (app.count(one) > 0 && app.count(other) > 0) {
      throw InputError(fmt::format("{} and {} contradict each other; leave one out", one, other));
    }
  }
  for (const char* option : {"--matrix", "--scale", "--filter", "--cell", "--mock", "--list",
                             "--dry-run", "--fault", "--sabotage", "--lift"}) {
    if ((options.selftest || options.probe) && app.count(option) > 0) {
      throw InputError(fmt::format("{} has cells of its own; leave {} out",
                                   options.probe ? "probe" : "selftest", option));
    }
  }
  if (options.probe && app.count("--resume") > 0) {
    throw InputError("probe takes up no earlier run; leave --resume out");
  }
  for (const char* option : {"--matrix", "--filter", "--cell", "--report", "--resume"}) {
    const std::vector<std::string> given = app.get_option(option)->results();
    if (std::find(given.begin(), given.end(), "") != given.end()) {
      throw InputError(fmt::format("{}: the value is empty; give one, or leave it out", option));
    }
  }
}

double scale_from(const std::string& text) {
  double scale = 0.0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, scale);
  const bool read = parsed.ec == std::errc() && parsed.ptr == end;
  if (read && std::isfinite(scale) && scale > 0.0) return scale;
  throw InputError(fmt::format("--deadline-scale {}: must be a number above 0, such as 2", text));
}

std::vector<std::string> given_options(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    if (option->count() > 0) names.push_back(option->get_single_name());
  }
  for (const CLI::App* command : app.get_subcommands()) {
    for (const CLI::Option* option : command->get_options()) {
      if (option->count() > 0) names.push_back(option->get_single_name());
    }
  }
  return names;
}

std::string typed_line(int argc, const char* const* argv) {
  std::string line = "cgconform";
  for (int i = 1; i < argc; ++i) line += ' ' + shell_quoted(argv[i]);
  return line;
}

}  // namespace

CommandLine parse_command_line(int argc, const char* const* argv) {
  CommandLine line;
  RawArguments raw;
  CLI::App app(
      "Can CUDA graphs be trusted on this machine? Runs every combination of settings "
      "against its own eager run, over MPI.",
      "cgconform");
  app.footer(exit_code_help());
  app.set_version_flag(
      "--version", std::string(build_info().version) + " " + std::string(build_info().git_commit));
  app.require_subcommand(0, 1);
  add_run_options(app, line.options, raw);
  add_check_command(app, line.exit_code);
  add_explain_command(app, line.exit_code);
  add_schedule_command(app, line.exit_code);
  add_selftest_command(app, line.options);
  add_probe_command(app, line.options);
  try {
    parse(app, argc, argv);
  } catch (const CLI::ParseError& help) {
    line.exit_code = app.exit(help);
    line.action = Action::finished;
    return line;
  }
  line.options.selftest = app.got_subcommand("selftest");
  line.options.probe = app.got_subcommand("probe");
  if (!app.get_subcommands().empty() && !line.options.selftest && !line.options.probe) {
    line.action = Action::finished;
    return line;
  }
  line.options.command_line = typed_line(argc, argv);
  for (int i = 1; i < argc; ++i) line.options.arguments.emplace_back(argv[i]);
  line.options.given = given_options(app);
  if (argc > 0) line.options.program = argv[0];
  check_contradictions(app, line.options);
  line.options.deadline_scale = scale_from(raw.deadline_scale);
  if (app.count("--scale") > 0) line.options.scale = matrix::checked_scale(line.options.scale);
  line.options.seed = seed_from(raw.seed);
  line.options.selection =
      read_selection(app, raw.selection, line.options.selftest || line.options.probe);
  line.options.lifts = parse_lifts(raw.lifts);
  line.options.device = chosen("--device", raw.device, device_choices);
  for (const std::string& fault : line.options.faults) fault_named(fault);
  sabotage_named(line.options.sabotage);
  if (app.count("--wrap") > 0) line.options.wrap = parse_wrap(raw.wrap);
  if (app.count("--guard-pages") > 0) {
    line.options.guard_pages = raw.guard_pages.empty()
                                   ? GuardPagesChoice::end
                                   : chosen("--guard-pages", raw.guard_pages, guard_pages_choices);
  }
  line.options.isolation = chosen("--isolation", raw.isolation, isolation_choices);
  line.options.share_legs = chosen("--share-legs", raw.share_legs, switch_choices);
  line.options.cell_deadline = time_from("--timeout", raw.timeout);
  // A phase's deadline grows under a wrapper; the whole cell's must not come before it.
  if (app.count("--timeout") == 0) {
    line.options.cell_deadline *= std::llround(wrapped_deadline_scale(line.options.wrap));
  }
  if (app.count("--list") > 0) {
    line.action = raw.list.empty() ? Action::list : chosen("--list", raw.list, list_choices);
  } else if (raw.dry_run) {
    line.action = Action::dry_run;
  }
  return line;
}

bool never_uses_mpi(int argc, const char* const* argv) {
  constexpr std::array<std::string_view, 4> commands{"check", "explain", "schedule", "list"};
  for (int i = 1; i < argc; ++i) {
    const std::string_view word(argv[i]);
    if (word == "-h") return true;
    for (const std::string_view action : actions_without_mpi) {
      if (word == action || word.starts_with(std::string(action) + "=")) return true;
    }
    if (i == 1 && std::find(commands.begin(), commands.end(), word) != commands.end()) return true;
  }
  return false;
}

}  // namespace cgconform::harness

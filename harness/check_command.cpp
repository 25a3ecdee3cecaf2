#include "harness/check_command.hpp"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <unistd.h>

#include "harness/check_report.hpp"
#include "matrix/constraint_document.hpp"
#include "matrix/constraint_engine.hpp"
#include "matrix/environment.hpp"
#include "matrix/error.hpp"
#include "matrix/input.hpp"
#include "matrix/nearest_name.hpp"
#include "matrix/quoted_word.hpp"
#include "matrix/suggest.hpp"

namespace cgconform::harness {

namespace {

using namespace matrix;

constexpr int exit_legal = 0;
constexpr int exit_illegal = 1;
constexpr int exit_unusable = 2;
constexpr std::size_t flush_size = std::size_t{64} * 1024;

/// What the command line of `check` says.
struct CheckOptions {
  std::vector<std::string> inputs;
  std::string ruleset = "seed";
  std::string layers;
  std::string environment;
  std::string format = "auto";
  bool json = false;
  bool allow_unknown = false;
  bool suggest = false;
};

Ruleset parse_ruleset(const std::string& name) {
  if (const std::optional<Ruleset> ruleset = find_ruleset(name)) return *ruleset;
  std::vector<std::string_view> known;
  for (Ruleset ruleset : all_rulesets()) known.push_back(ruleset_name(ruleset));
  throw InputError(
      fmt::format("--ruleset: {} is not known{}", quoted_word(name),
                  nearest_hint(std::string_view(name).substr(0, longest_quoted_word), known)));
}

Layers parse_layers(std::string_view list) {
  if (list.empty()) return all_layers;
  constexpr std::array<std::string_view, 5> known{"config", "args", "bridge", "build", "replay"};
  Layers layers;
  while (!list.empty()) {
    const std::size_t comma = list.find(',');
    const std::string_view word = list.substr(0, comma);
    const std::optional<Layer> layer = find_layer(word);
    if (!layer) {
      throw InputError(fmt::format("--layers: {} is not a layer{}", quoted_word(word),
                                   nearest_hint(word.substr(0, longest_quoted_word), known)));
    }
    layers.insert(*layer);
    list = comma == std::string_view::npos ? std::string_view{} : list.substr(comma + 1);
  }
  return layers;
}

bool stdout_takes_colours() {
  return ::isatty(STDOUT_FILENO) == 1 && std::getenv("NO_COLOR") == nullptr;
}

/// Judges configurations as they are read and writes the verdicts.
class CheckRun {
 public:
  explicit CheckRun(const CheckOptions& options)
      : options_(options),
        ruleset_(parse_ruleset(options.ruleset)),
        layers_(parse_layers(options.layers)),
        colours_(stdout_takes_colours()) {
    input_options_.ruleset = ruleset_;
    input_options_.allow_unknown = options.allow_unknown;
    if (options.environment == "current") input_options_.platform = current_environment({});
  }

  int run() {
    try {
      read_inputs();
    } catch (const InputError&) {
      flush();
      throw;
    }
    flush();
    return any_illegal_ ? exit_illegal : exit_legal;
  }

 private:
  bool are_arguments() const {
    for (const std::string& word : options_.inputs) {
      if (word.size() > 1 && word.front() == '-') return true;
    }
    return false;
  }

  void read_inputs() {
    if (options_.inputs.empty()) {
      throw InputError("check: no input; give a file, `-` for standard input, or `-- ARGUMENT...`");
    }
    if (are_arguments()) {
      judge("arguments", read_argument_input(options_.inputs, input_options_));
      return;
    }
    for (const std::string& path : options_.inputs) {
      if (path == "-") {
        read_stream(std::cin, "<stdin>", path);
        continue;
      }
      std::ifstream file(path, std::ios::binary);
      if (!file || file.peek() == std::ifstream::traits_type::eof()) {
        throw InputError(
            fmt::format("{}: {}", path, file ? "the file is empty" : "cannot be read"));
      }
      read_stream(file, path, path);
    }
  }

  void read_stream(std::istream& stream, const std::string& source, const std::string& path) {
    const auto consume = [&](const CheckInput& input) { judge(source, input); };
    if (is_yaml(stream, path)) {
      read_yaml_inputs(stream, source, input_options_, consume);
    } else {
      read_json_inputs(stream, source, input_options_, consume);
    }
  }

  bool is_yaml(std::istream& stream, const std::string& path) const {
    if (options_.format != "auto") return options_.format == "yaml";
    if (path.ends_with(".yaml") || path.ends_with(".yml")) return true;
    if (path.ends_with(".json") || path.ends_with(".jsonl")) return false;
    stream >> std::ws;
    const int first = stream.peek();
    return first != '{' && first != '[';
  }

  void judge(const std::string& source, const CheckInput& input) {
    evaluate(ruleset_, layers_, input.config, input.platform, evaluation_);
    any_illegal_ = any_illegal_ || !evaluation_.legal();
    Suggestions suggestions;
    if (options_.suggest) {
      suggestions.repairs = suggest_repairs(ruleset_, layers_, input.config, input.platform);
      suggestions.ladder = scope_ladder(ruleset_, layers_, input.config, input.platform);
    }
    const Suggestions* shown = options_.suggest ? &suggestions : nullptr;
    if (options_.json) {
      append_check_json(out_, input, evaluation_, shown);
    } else {
      append_check_text(out_, source, ruleset_, input, evaluation_, shown, colours_);
    }
    if (out_.size() >= flush_size) flush();
  }

  void flush() {
    std::fwrite(out_.data(), 1, out_.size(), stdout);
    std::fflush(stdout);
    out_.clear();
  }

  const CheckOptions& options_;
  Ruleset ruleset_;
  Layers layers_;
  bool colours_;
  InputOptions input_options_;
  Evaluation evaluation_;
  std::string out_;
  bool any_illegal_ = false;
};

/// Runs `body` and turns unusable input into its message and exit code.
template <typename Body>
int guarded(const Body& body) {
  try {
    return body();
  } catch (const InputError& error) {
    fmt::print(stderr, "cgconform: {}\n", error.what());
    return exit_unusable;
  }
}

}  // namespace

void add_check_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<CheckOptions>();
  CLI::App* command = app.add_subcommand(
      "check", "Tell which rules a training configuration breaks, and what to change");
  command->add_option("input", options->inputs,
                      "JSON, JSON Lines or YAML files, `-` for standard input; after `--`, the "
                      "arguments of Megatron-LM or of a Bridge performance script");
  command
      ->add_option("--ruleset", options->ruleset,
                   "seed, cgconform, mcore-0.17, mcore-0.20, megatron-lm-0.20 or bridge-0.6")
      ->capture_default_str();
  command->add_option(
      "--layers", options->layers,
      "only these layers, separated by commas: config, args, bridge, build, replay");
  command->add_option("--env", options->environment, "`current` takes this process's environment")
      ->check(CLI::IsMember({"current"}));
  command->add_option("--format", options->format, "how files are read")
      ->check(CLI::IsMember({"auto", "json", "yaml"}))
      ->capture_default_str();
  command->add_flag("--json", options->json, "one line of JSON for each configuration");
  command->add_flag("--allow-unknown", options->allow_unknown, "ignore unknown fields");
  command->add_flag("--suggest", options->suggest,
                    "the smallest changes that make it legal, and what to graph next");
  command->callback(
      [options, &exit_code] { exit_code = guarded([&] { return CheckRun(*options).run(); }); });
}

void add_explain_command(CLI::App& app, int& exit_code) {
  struct ExplainOptions {
    std::string rule;
    std::string all;
  };
  auto options = std::make_shared<ExplainOptions>();
  CLI::App* command = app.add_subcommand("explain", "Print a rule, or the table of all rules");
  auto* rule = command->add_option("rule", options->rule, "id of a rule, such as moe-xor-router");
  command->add_option("--all", options->all, "the whole table in this format")
      ->check(CLI::IsMember({"markdown"}))
      ->excludes(rule);
  command->callback([options, &exit_code] {
    exit_code = guarded([&] {
      if (options->rule.empty() && options->all.empty()) {
        throw InputError("explain: give the id of a rule, or --all=markdown");
      }
      const std::string text =
          options->all.empty() ? explain_rule(options->rule) : explain_all_as_markdown();
      std::fwrite(text.data(), 1, text.size(), stdout);
      return exit_legal;
    });
  });
}

}  // namespace cgconform::harness

#include "suites/checks/constraint_audits.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "matrix/expansion.hpp"
#include "suites/checks/constraint_cases.hpp"
#include "suites/constraint_oracle.hpp"
#include "suites/random_config.hpp"

namespace cgconform::suites::checks {
namespace {

using matrix::CudaGraphModule;
using matrix::PlatformSettings;
using matrix::TrainingConfig;

constexpr std::uint64_t random_configurations = 20000;
constexpr std::uint64_t matrix_samples = 20000;
constexpr int repetitions = 100;
constexpr std::chrono::seconds refusal_limit{2};

std::optional<std::string> find_difference(const TrainingConfig& config,
                                           const PlatformSettings& platform,
                                           const ScenarioContext& context) {
  auto engine = violated_rules(config, platform, context);
  std::sort(engine.begin(), engine.end());
  const auto oracle = oracle_violations(config, platform);
  if (engine == oracle) return std::nullopt;
  return fmt::format("the engine finds [{}], the oracle [{}]", fmt::join(engine, ", "),
                     fmt::join(oracle, ", "));
}

/// Every cell of the matrix at equal distances, in an order that visits all axes.
std::optional<std::string> compare_matrix(const matrix::Expansion& expansion,
                                          const ScenarioContext& context) {
  const std::uint64_t size = expansion.size();
  const std::uint64_t samples = std::min(size, matrix_samples);
  for (std::uint64_t i = 0; i < samples; ++i) {
    const std::uint64_t index = (i * (size / samples) + context.seed) % size;
    const matrix::Cell cell = expansion.cell(index);
    if (const auto difference = find_difference(cell.config, cell.platform, context)) {
      return fmt::format("{}: {}", expansion.name(index).id, *difference);
    }
  }
  return std::nullopt;
}

std::size_t count_entries(const char* directory) {
  std::size_t entries = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(directory)) {
    ++entries;
  }
  return entries;
}

/// What a process holds that a refusal must not add to.
struct Holdings {
  std::size_t files = count_entries("/proc/self/fd");
  std::size_t threads = count_entries("/proc/self/task");
  friend bool operator==(const Holdings&, const Holdings&) = default;
};

/// Breaks rules of several subjects at once.
TrainingConfig many_violations() {
  TrainingConfig config = legal_full_iteration();
  config.cuda_graph_scope.insert(CudaGraphModule::attn);
  config.cuda_graph_scope.insert(CudaGraphModule::moe);
  config.use_te_rng_tracker = false;
  config.te_rng_tracker = false;
  config.check_for_nan_in_loss = true;
  config.check_for_nan_in_grad = true;
  config.check_for_nan_in_loss_and_grad = true;
  config.cpu_offloading = true;
  config.recompute_granularity = matrix::RecomputeGranularity::selective;
  return config;
}

}  // namespace

CheckResult judge_against_oracle(ScenarioContext& context) {
  for (std::uint64_t i = 0; i < random_configurations; ++i) {
    const RandomConfig drawn = random_config(context.seed * random_configurations + i);
    if (const auto difference = find_difference(drawn.config, drawn.platform, context)) {
      return {.verdict = Verdict::fail_constraint_admitted,
              .detail = fmt::format("random configuration {}: {}",
                                    context.seed * random_configurations + i, *difference)};
    }
  }
  const matrix::Expansion full(matrix::load_matrix("full"));
  if (const auto difference = compare_matrix(full, context)) {
    return {.verdict = Verdict::fail_constraint_admitted, .detail = *difference};
  }
  return {.detail = fmt::format("{} random configurations and {} of {} cells of 'full' agree",
                                random_configurations, std::min(full.size(), matrix_samples),
                                full.size())};
}

CheckResult judge_side_effects(ScenarioContext& context) {
  const Holdings before;
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < repetitions; ++i) {
    if (violated_rules(many_violations(), {}, context).empty()) {
      return {.verdict = Verdict::fail_constraint_admitted,
              .detail = "a configuration that breaks many rules was admitted"};
    }
  }
  const auto elapsed = std::chrono::steady_clock::now() - start;
  const Holdings after;
  if (before != after) {
    return {.verdict = Verdict::fail_leak,
            .detail = fmt::format("refusing left {} files and {} threads, {} and {} before",
                                  after.files, after.threads, before.files, before.threads)};
  }
  if (elapsed > refusal_limit) {
    return {.verdict = Verdict::fail_perf, .detail = "refusing took more than 2 s"};
  }
  return {.detail = fmt::format("{} refusals left nothing behind", repetitions)};
}

CheckResult judge_all_rules_listed(ScenarioContext& context) {
  const TrainingConfig config = many_violations();
  const auto rules = violated_rules(config, {}, context);
  for (const std::string_view expected : oracle_violations(config, {})) {
    if (std::find(rules.begin(), rules.end(), expected) == rules.end()) {
      return {
          .verdict = Verdict::fail_constraint_admitted,
          .detail = fmt::format("{} is violated, listed are {}", expected, fmt::join(rules, ", "))};
    }
  }
  for (int i = 0; i < repetitions; ++i) {
    if (violated_rules(config, {}, context) != rules) {
      return {.verdict = Verdict::fail_nondeterminism,
              .detail = "the list of violated rules changes from one judgement to the next"};
    }
  }
  // A further violation may add to the list; the first stays first unless the new one precedes all.
  TrainingConfig more = config;
  more.delay_wgrad_compute = true;
  more.gradient_accumulation_fusion = false;
  const auto longer = violated_rules(more, {}, context);
  if (longer.size() <= rules.size() ||
      !std::includes(longer.begin(), longer.end(), rules.begin(), rules.end(),
                     [&](std::string_view a, std::string_view b) {
                       const auto place = [&](std::string_view rule) {
                         return std::find(longer.begin(), longer.end(), rule) - longer.begin();
                       };
                       return place(a) < place(b);
                     })) {
    return {.verdict = Verdict::fail_nondeterminism,
            .detail = fmt::format("a further violation reorders [{}] to [{}]",
                                  fmt::join(rules, ", "), fmt::join(longer, ", "))};
  }
  return {.detail = fmt::format("all {} rules are listed, '{}' always first", rules.size(),
                                rules.front())};
}

}  // namespace cgconform::suites::checks

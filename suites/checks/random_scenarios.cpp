#include "suites/checks/random_scenarios.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "workloads/device/communicator.hpp"
#include "workloads/lifecycle/random_draws.hpp"

namespace cgconform::suites::checks {
namespace {

using workloads::DrawnMasks;
using workloads::RandomDraws;

constexpr std::size_t draws = 3;
using Sequence = std::vector<DrawnMasks>;

CheckResult wrong(std::string detail) {
  return {.verdict = Verdict::fail_rng_state, .detail = std::move(detail)};
}

Sequence replayed(RandomDraws& random) {
  Sequence masks;
  for (std::size_t i = 0; i < draws; ++i) masks.push_back(random.draw_from_graph());
  return masks;
}

Sequence eager(RandomDraws& random) {
  Sequence masks;
  for (std::size_t i = 0; i < draws; ++i) masks.push_back(random.draw_eagerly());
  return masks;
}

/// Eager, graph, eager, ...
Sequence in_turn(RandomDraws& random) {
  Sequence masks;
  for (std::size_t i = 0; i < draws; ++i) {
    masks.push_back(i % 2 == 0 ? random.draw_eagerly() : random.draw_from_graph());
  }
  return masks;
}

bool repeats_itself(const Sequence& masks) {
  for (std::size_t i = 1; i < masks.size(); ++i) {
    if (masks[i] == masks[i - 1]) return true;
  }
  return false;
}

std::string text_of(const std::vector<std::uint8_t>& mask) {
  return {mask.begin(), mask.end()};
}

/// Every mask of every rank, drawn eagerly and from a graph; `tensor_rank` is this rank's.
CheckResult compare_ranks(ScenarioContext& context, std::int32_t tensor_rank) {
  workloads::Communicator& gang = *context.gang;
  RandomDraws random(*context.device, context.seed, {.tensor_rank = tensor_rank}, context.faults);
  for (std::size_t draw = 0; draw < 2 * draws; ++draw) {
    const bool from_graph = draw % 2 != 0;
    const DrawnMasks own = from_graph ? random.draw_from_graph() : random.draw_eagerly();
    const auto whole = gang.exchange(text_of(own.data_parallel));
    const auto parts = gang.exchange(text_of(own.tensor_parallel));
    const std::string_view how = from_graph ? "from the graph" : "eagerly";
    for (std::size_t a = 0; a < whole.size(); ++a) {
      for (std::size_t b = a + 1; b < whole.size(); ++b) {
        if (whole[a] != whole[b]) {
          return wrong(
              fmt::format("draw {}, {}: ranks {} and {}, which hold the same, drop other "
                          "elements",
                          draw, how, a, b));
        }
        if (parts[a] == parts[b]) {
          return wrong(
              fmt::format("draw {}, {}: ranks {} and {} drop the same elements of "
                          "different parts",
                          draw, how, a, b));
        }
      }
    }
  }
  return {.detail = fmt::format("{} draws compared over {} ranks", 2 * draws, gang.size())};
}

}  // namespace

CheckResult judge_reseed(ScenarioContext& context) {
  const std::uint64_t seed = context.seed;
  RandomDraws random(*context.device, seed, {}, context.faults);
  const Sequence first = replayed(random);
  random.reseed(seed + 1);
  const Sequence other = replayed(random);
  random.reseed(seed);
  const Sequence again = replayed(random);
  random.reseed(seed);
  const Sequence expected = eager(random);
  if (first == other) return wrong("replays after another seed draw the same masks");
  if (first != again) return wrong("the old seed does not bring the masks back");
  if (first != expected || repeats_itself(first)) {
    return wrong("replays after a seed do not draw what eager code draws after it");
  }
  return {.detail = fmt::format("{} draws after each of two seeds", draws)};
}

CheckResult judge_saved_random_state(ScenarioContext& context) {
  RandomDraws random(*context.device, context.seed, {}, context.faults);
  const Sequence expected = eager(random);
  random.reseed(context.seed);
  if (in_turn(random) != expected || repeats_itself(expected)) {
    return wrong("eager draws and replays in turn are not one sequence");
  }
  const workloads::Buffer saved = random.save();
  const Sequence after = replayed(random);
  random.restore(saved);
  if (replayed(random) != after) {
    return wrong("replays after the saved state was restored draw other masks");
  }
  random.restore(saved);
  if (eager(random) != after) {
    return wrong("eager draws from the saved state differ from the replays'");
  }
  return {.detail = fmt::format("{} draws eager, replayed and in turn", draws)};
}

CheckResult judge_masks_of_ranks(ScenarioContext& context) {
  return compare_ranks(context, context.gang->rank());
}

CheckResult draw_parts_from_one_stream(ScenarioContext& context) {
  CheckResult result = compare_ranks(context, 0);
  result.check_id = "NUM-11";
  return result;
}

}  // namespace cgconform::suites::checks

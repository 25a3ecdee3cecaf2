#include "suites/checks/routing_checks.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include <fmt/format.h>

#include "matrix/moe_layers.hpp"
#include "suites/cell_plan.hpp"
#include "suites/checks/difference_text.hpp"
#include "suites/leg_set.hpp"
#include "workloads/allocator/caching_allocator.hpp"
#include "workloads/device/device.hpp"
#include "workloads/ops/expert_rows.hpp"
#include "workloads/ops/router.hpp"

namespace cgconform::suites::checks {
namespace {

using workloads::Buffer;
using workloads::DType;
using workloads::RoutingRecord;
using workloads::Shape;
using Numbers = std::vector<std::int32_t>;

/// Step, micro-batch, layer and kind of step of one call of a router.
using CallKey = std::tuple<std::int32_t, std::int32_t, std::int32_t, bool>;
/// What a router's call left, by name.
using RoutedCalls = std::map<CallKey, std::map<std::string, const Numbers*>>;

RoutedCalls calls_of(const std::vector<RoutingRecord>& records) {
  RoutedCalls calls;
  for (const RoutingRecord& record : records) {
    const workloads::TensorLocation& where = record.where;
    calls[{where.step, where.microbatch, where.layer, where.validation}][where.tensor.text()] =
        &record.values;
  }
  return calls;
}

std::string call_text(const CallKey& call) {
  return fmt::format("step {} micro-batch {} layer {}{}", std::get<0>(call), std::get<1>(call),
                     std::get<2>(call), std::get<3>(call) ? " validation" : "");
}

const Numbers& numbers_of(const std::map<std::string, const Numbers*>& call, const char* tensor) {
  static const Numbers none;
  const auto found = call.find(tensor);
  return found == call.end() ? none : *found->second;
}

/// Tokens that an expert takes from one rank, from the configuration alone.
std::int32_t capacity_of(const matrix::Cell& cell) {
  const matrix::TrainingConfig& config = cell.config;
  // With sequence parallelism each tensor-parallel rank routes its own tokens.
  const std::int32_t length = config.sequence_parallel
                                  ? config.seq_length / config.tensor_model_parallel_size
                                  : config.seq_length;
  const std::int64_t places =
      std::int64_t{config.micro_batch_size} * length * config.moe_router_topk;
  const double share = static_cast<double>(places) / config.num_moe_experts.value_or(1);
  const auto factor = static_cast<double>(config.moe_expert_capacity_factor.value_or(1.0F));
  return std::max(static_cast<std::int32_t>(std::ceil(share * factor)), 1);
}

/// Counts calls in which a layer's routing is that of the call before.
struct Changes {
  std::size_t changed = 0;
  std::size_t unchanged = 0;
};

Changes changes_of(const RoutedCalls& calls) {
  std::map<std::pair<std::int32_t, bool>, const Numbers*> last;
  Changes changes;
  for (const auto& [key, call] : calls) {
    const Numbers& experts = numbers_of(call, "routing:experts");
    const Numbers*& before = last[{std::get<2>(key), std::get<3>(key)}];
    if (before != nullptr) ++(*before == experts ? changes.unchanged : changes.changed);
    before = &experts;
  }
  return changes;
}

}  // namespace

bool graph_cells_with_experts(const matrix::Cell& cell) {
  if (!is_graph_cell(cell)) return false;
  for (std::int32_t layer = 0; layer < cell.config.num_layers; ++layer) {
    if (matrix::is_moe_layer(cell, layer)) return true;
  }
  return false;
}

bool graph_cells_that_drop(const matrix::Cell& cell) {
  return graph_cells_with_experts(cell) && cell.config.moe_pad_expert_input_to_capacity;
}

CheckResult judge_routing(JudgeContext& context) {
  const RoutedCalls calls = calls_of(context.legs.record(instrumented_graph_leg()).routing);
  if (calls.empty()) {
    // A stage may have no layer with experts; then nothing may have been routed in eager either.
    const bool none = context.legs.record(instrumented_eager_leg()).routing.empty();
    return {.verdict = none && context.cell.config.pipeline_model_parallel_size > 1
                           ? Verdict::pass
                           : Verdict::fail_coverage,
            .detail = "no routing was observed on this rank"};
  }
  for (const auto& [key, call] : calls) {
    const Numbers& load = numbers_of(call, "routing:load");
    const auto places = static_cast<std::int64_t>(numbers_of(call, "routing:experts").size());
    const std::int64_t counted = std::accumulate(load.begin(), load.end(), std::int64_t{0});
    if (places > 0 && counted == places) continue;
    return {.verdict = Verdict::fail_truncation,
            .detail = fmt::format("{}: {} places were routed and {} counted", call_text(key),
                                  places, counted)};
  }
  const auto& expected = instrumented_eager_leg();
  const auto& actual = instrumented_graph_leg();
  for (const ObservationOutcome& outcome : context.legs.difference(expected, actual).outcomes) {
    const bool routed = outcome.where.tensor == "routing:experts" ||
                        outcome.where.tensor == "routing:load" ||
                        outcome.where.tensor == "load_balancing_loss";
    if (!routed || !outcome.differs()) continue;
    return {.verdict = Verdict::fail_numeric_mismatch,
            .detail = describe_difference(outcome, expected, actual),
            .divergence = divergence_of(outcome)};
  }
  const Changes eager = changes_of(calls_of(context.legs.record(expected).routing));
  const Changes graph = changes_of(calls);
  if (graph.changed == 0 || graph.unchanged > eager.unchanged) {
    return {.verdict = eager.changed == 0 ? Verdict::fail_coverage : Verdict::fail_state_frozen,
            .detail = fmt::format("the routing stayed the same over {} calls, {} in eager",
                                  graph.unchanged, eager.unchanged)};
  }
  return {.detail = fmt::format("{} calls routed as in eager, {} of them unlike the one before",
                                calls.size(), graph.changed)};
}

CheckResult judge_capacity(JudgeContext& context) {
  const RoutedCalls calls = calls_of(context.legs.record(instrumented_graph_leg()).routing);
  const std::int32_t capacity = capacity_of(context.cell);
  std::size_t full = 0;
  std::size_t exceeded = 0;
  for (const auto& [key, call] : calls) {
    const Numbers& load = numbers_of(call, "routing:load");
    const Numbers& overflow = numbers_of(call, "routing:overflow");
    if (load.empty() || overflow.size() != load.size()) {
      return {.verdict = Verdict::fail_coverage,
              .detail = fmt::format("{}: load or overflow was not observed", call_text(key))};
    }
    Numbers kept(load.size(), 0);
    for (const std::int32_t slot : numbers_of(call, "routing:slots")) {
      if (slot >= 0) ++kept.at(static_cast<std::size_t>(slot / capacity));
    }
    for (std::size_t expert = 0; expert < load.size(); ++expert) {
      const std::int32_t excess = std::max(load[expert] - capacity, 0);
      if (load[expert] == capacity) ++full;
      if (excess > 0) ++exceeded;
      if (overflow[expert] == excess && kept[expert] == load[expert] - excess) continue;
      return {.verdict = Verdict::fail_truncation,
              .detail = fmt::format("{}: expert {} got {} tokens for {} rows, kept {} and flagged "
                                    "{} as overflow",
                                    call_text(key), expert, load[expert], capacity, kept[expert],
                                    overflow[expert])};
    }
  }
  return {.detail = fmt::format("{} calls account for every token; a capacity of {} was met {} "
                                "times and exceeded {} times, flagged each time",
                                calls.size(), capacity, full, exceeded)};
}

CheckResult judge_full_capacity(ScenarioContext& context) {
  constexpr std::int32_t capacity = 3;
  constexpr std::int64_t places = 8;
  constexpr std::array<std::array<std::int32_t, places>, 2> routings{
      std::array<std::int32_t, places>{0, 1, 0, 1, 1, 0, 2, 2},  // two experts exactly full
      std::array<std::int32_t, places>{0, 1, 0, 1, 1, 0, 0,
                                       2}};  // one token too many for the first
  workloads::Device& device = *context.device;
  const std::unique_ptr<workloads::Stream> stream = device.create_stream("capacity");
  workloads::CachingAllocator allocator(device.segment_source());
  const auto numbers = [&](std::int64_t count) {
    return Buffer(allocator, *stream, workloads::default_pool, DType::int32, Shape{count},
                  "capacity");
  };
  const Buffer experts(allocator, *stream, workloads::default_pool, DType::int32, Shape{places, 1},
                       "experts");
  const Buffer slots(allocator, *stream, workloads::default_pool, DType::int32, Shape{places, 1},
                     "slots");
  const Buffer load = numbers(3);
  const Buffer overflow = numbers(3);
  const Buffer sources = numbers(std::int64_t{3} * capacity);
  stream->begin_capture(workloads::CaptureMode::thread_local_mode);
  count_load(*stream, load.view(), experts.view(), "load");
  assign_slots(*stream, slots.view(), sources.view(), overflow.view(), experts.view(), load.view(),
               capacity, "slots");
  const auto graph = stream->end_capture();
  const auto exec = graph->instantiate();
  for (std::size_t excess = 0; excess < routings.size(); ++excess) {
    stream->upload(experts.view(), routings.at(excess).data(), false, "experts");
    exec->launch(*stream);
    std::array<std::int32_t, 3> flagged{};
    std::array<std::int32_t, places> given{};
    stream->download(flagged.data(), overflow.view());
    stream->download(given.data(), slots.view());
    const auto dropped = std::count(given.begin(), given.end(), -1);
    const bool holds = dropped == static_cast<std::ptrdiff_t>(excess) &&
                       flagged[0] == static_cast<std::int32_t>(excess) && flagged[1] == 0 &&
                       flagged[2] == 0;
    if (holds) continue;
    return {.verdict = Verdict::fail_truncation,
            .detail = fmt::format("capacity plus {}: {} tokens dropped, {} flagged", excess,
                                  dropped, flagged[0])};
  }
  return {.detail = "a full capacity drops nothing, one token more is dropped and flagged"};
}

}  // namespace cgconform::suites::checks

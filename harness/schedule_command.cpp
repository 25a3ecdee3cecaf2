#include "harness/schedule_command.hpp"

#include <cmath>
#include <cstdio>
#include <memory>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "workloads/capture/transformer_engine_plan.hpp"
#include "workloads/parallel/capture_order.hpp"

namespace cgconform::harness {

namespace {

struct ScheduleOptions {
  workloads::CaptureLayout layout;
  std::int32_t group = 0;
  bool delays_wgrads = false;
  bool json = false;
};

struct PrintedOrder {
  std::vector<double> order;  ///< whole numbers, but for weight gradients
  std::int32_t warmup = 0;
  std::int32_t static_input_sets = 0;
};

PrintedOrder order_of(const ScheduleOptions& options) {
  const workloads::CaptureOrder of_chunks = workloads::capture_order(options.layout);
  if (!options.layout.overlaps && !options.delays_wgrads) {
    return {{of_chunks.order.begin(), of_chunks.order.end()},
            of_chunks.warmup,
            of_chunks.static_input_sets};
  }
  const auto chunks = static_cast<std::size_t>(options.layout.chunks);
  const auto layers = static_cast<std::size_t>(options.layout.layers_per_chunk) * chunks;
  std::vector<double> order = workloads::layer_order(
      of_chunks.order,
      {.layers_per_chunk = std::vector<std::int32_t>(chunks, options.layout.layers_per_chunk),
       .wgrads = std::vector<bool>(layers, options.delays_wgrads),
       .overlaps = options.layout.overlaps});
  const workloads::CallablePlan plan(order, std::vector<std::int32_t>(layers, 1));
  return {std::move(order), of_chunks.warmup, plan.input_set_count()};
}

nlohmann::ordered_json json_of(const std::vector<double>& order) {
  auto entries = nlohmann::ordered_json::array();
  for (const double entry : order) {
    if (entry == std::floor(entry)) {
      entries.push_back(static_cast<std::int32_t>(entry));
    } else {
      entries.push_back(entry);
    }
  }
  return entries;
}

void print_order(const PrintedOrder& result, bool as_json) {
  if (as_json) {
    const nlohmann::ordered_json document = {{"order", json_of(result.order)},
                                             {"warmup", result.warmup},
                                             {"static_input_sets", result.static_input_sets}};
    fmt::print("{}\n", document.dump());
    return;
  }
  fmt::print("order              {}\n", fmt::join(result.order, " "));
  fmt::print("warm-up            {}\n", result.warmup);
  fmt::print("static input sets  {}\n", result.static_input_sets);
}

}  // namespace

void add_schedule_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<ScheduleOptions>();
  CLI::App* command = app.add_subcommand(
      "schedule",
      "Print the order in which a rank's graphs are captured and replayed: forwards of model chunk "
      "c as c, backwards as -c; with --ep-overlap or --delay-wgrad forwards of layer k as k, "
      "backwards as -k, weight gradients as -k.5");
  command->add_option("--pp", options->layout.pipeline_stages, "Pipeline stages")
      ->capture_default_str();
  command->add_option("--vp", options->layout.chunks, "Model chunks a stage")
      ->capture_default_str();
  command->add_option("--microbatches", options->layout.microbatches, "Micro-batches a step")
      ->capture_default_str();
  command->add_option("--rank", options->layout.rank, "Pipeline stage, from 0")
      ->capture_default_str();
  CLI::Option* group = command->add_option(
      "--group", options->group,
      "Micro-batches that a virtual stage runs in a row (default: the pipeline stages)");
  command->add_option("--layers-per-chunk", options->layout.layers_per_chunk, "Layers of a chunk")
      ->capture_default_str();
  command->add_flag("--ep-overlap", options->layout.overlaps,
                    "Layer by layer, a backward and the forward after it in turn, as "
                    "expert-parallel overlap runs them");
  command->add_flag("--delay-wgrad", options->delays_wgrads,
                    "Layer by layer, with entries for delayed weight gradients");
  command->add_flag("--json", options->json, "One JSON object");
  command->callback([options, group, &exit_code] {
    if (group->count() > 0) options->layout.microbatch_group = options->group;
    print_order(order_of(*options), options->json);
    exit_code = 0;
  });
}

}  // namespace cgconform::harness

#include "harness/schedule_command.hpp"

#include <cstdio>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "workloads/parallel/capture_order.hpp"

namespace cgconform::harness {

namespace {

struct ScheduleOptions {
  workloads::CaptureLayout layout;
  std::int32_t group = 0;
  bool json = false;
};

void print_order(const workloads::CaptureOrder& result, bool as_json) {
  if (as_json) {
    const nlohmann::ordered_json document = {{"order", result.order},
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
      "c as c, backwards as -c");
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
  command->add_flag("--json", options->json, "One JSON object");
  command->callback([options, group, &exit_code] {
    if (group->count() > 0) options->layout.microbatch_group = options->group;
    print_order(workloads::capture_order(options->layout), options->json);
    exit_code = 0;
  });
}

}  // namespace cgconform::harness

#include <sstream>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "harness/check_report.hpp"
#include "matrix/constraint_engine.hpp"
#include "matrix/input.hpp"
#include "matrix/training_config.hpp"

namespace cgconform {
namespace {

using matrix::CudaGraphImpl;
using matrix::Ruleset;
using matrix::TrainingConfig;

/// A spread of legal and illegal configurations, dense and with experts.
std::vector<TrainingConfig> sample_configs() {
  std::vector<TrainingConfig> configs;
  for (std::uint32_t scope = 0; scope < 64; ++scope) {
    for (CudaGraphImpl impl :
         {CudaGraphImpl::none, CudaGraphImpl::local, CudaGraphImpl::transformer_engine}) {
      TrainingConfig config;
      config.cuda_graph_impl = impl;
      config.cuda_graph_scope = matrix::CudaGraphScope::from_bits(scope);
      config.use_te_rng_tracker = true;
      config.te_rng_tracker = true;
      config.attention_dropout = 0;
      if (scope % 2 == 1) config.num_moe_experts = 4;
      if (scope % 3 == 1) {
        config.recompute_granularity = matrix::RecomputeGranularity::selective;
      }
      configs.push_back(config);
    }
  }
  return configs;
}

void evaluate_configurations(benchmark::State& state) {
  const auto ruleset = static_cast<Ruleset>(state.range(0));
  const std::vector<TrainingConfig> configs = sample_configs();
  const matrix::PlatformSettings platform;
  matrix::Evaluation evaluation;
  std::size_t i = 0;
  for (auto _ : state) {
    matrix::evaluate(ruleset, configs[i], platform, evaluation);
    benchmark::DoNotOptimize(evaluation.violations.data());
    i = i + 1 < configs.size() ? i + 1 : 0;
  }
  state.SetItemsProcessed(state.iterations());
  state.SetLabel(std::string(matrix::ruleset_name(ruleset)));
}
BENCHMARK(evaluate_configurations)->DenseRange(0, 5);

/// Reading JSON Lines, judging and writing the verdicts as JSON.
void check_json_lines(benchmark::State& state) {
  std::string lines;
  constexpr int count = 1000;
  for (int i = 0; i < count; ++i) {
    lines += R"({"attention_dropout": 0.0, "cuda_graph_impl": "transformer_engine", )"
             R"("cuda_graph_scope": ["attn", "moe_router", "moe_preprocess"], )"
             R"("cuda_graph_warmup_steps": 3, "hidden_dropout": 0.1, "moe_grouped_gemm": true, )"
             R"("moe_layer_freq": [0, 1, 0, 1], "moe_token_dispatcher_type": "alltoall", )"
             R"("num_moe_experts": 4, "pipeline_model_parallel_size": 2, )"
             R"("recompute_granularity": "selective", "recompute_modules": ["core_attn"]})"
             "\n";
  }
  const matrix::InputOptions options;
  matrix::Evaluation evaluation;
  std::string out;
  for (auto _ : state) {
    std::istringstream stream(lines);
    out.clear();
    matrix::read_json_inputs(stream, "benchmark", options, [&](const matrix::CheckInput& input) {
      matrix::evaluate(Ruleset::seed, input.config, input.platform, evaluation);
      harness::append_check_json(out, input, evaluation, nullptr);
    });
    benchmark::DoNotOptimize(out.data());
  }
  state.SetItemsProcessed(state.iterations() * count);
}
BENCHMARK(check_json_lines);

}  // namespace
}  // namespace cgconform

BENCHMARK_MAIN();

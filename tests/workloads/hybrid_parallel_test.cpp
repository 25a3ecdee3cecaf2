#include <cstdint>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "tests/workloads/sharded_results.hpp"

namespace cgconform::workloads {
namespace {

using matrix::CudaGraphImpl;
using matrix::RecomputeModule;
using testing::Layout;

/// A hybrid model over the ranks of a layout.
matrix::Cell hybrid_cell(const Layout& layout, CudaGraphImpl impl = CudaGraphImpl::none,
                         std::string_view pattern = "MM*-") {
  matrix::Cell cell = testing::spread_cell(layout, impl);
  cell.model_kind = matrix::ModelKind::hybrid_mamba;
  cell.config.is_hybrid_model = true;
  cell.config.hybrid_layer_pattern = *matrix::HybridPattern::parse(pattern);
  cell.config.num_layers = static_cast<std::int32_t>(pattern.size());
  cell.config.num_attention_heads = 4;
  cell.config.seq_length = 4;
  cell.config.num_microbatches = 2;
  cell.shape.steps = 3;
  return cell;
}

matrix::Cell sharing_rows(matrix::Cell cell) {
  cell.config.sequence_parallel = true;
  return cell;
}

TEST(HybridOverTensorParallelRanks, GivesTheLossesAndGradientsOfOneRank) {
  testing::expect_results_of_one_rank(hybrid_cell({.parts = 2}));
  testing::expect_results_of_one_rank(hybrid_cell({.parts = 4}, CudaGraphImpl::none, "M-"));
}

TEST(HybridOverTensorParallelRanks, GivesThemInProductsWithReplicasAndStages) {
  testing::expect_results_of_one_rank(hybrid_cell({.parts = 2, .replicas = 2}));
  testing::expect_results_of_one_rank(hybrid_cell({.parts = 2, .stages = 2, .chunks = 2}));
}

TEST(HybridOverTensorParallelRanks, GivesThemWhereRanksShareRows) {
  testing::expect_results_of_one_rank(sharing_rows(hybrid_cell({.parts = 2})));
  testing::expect_results_of_one_rank(
      sharing_rows(hybrid_cell({.parts = 4}, CudaGraphImpl::none, "M-")));
}

struct GraphCase {
  const char* name;
  CudaGraphImpl impl;
  Layout layout;
  void (*changes)(matrix::TrainingConfig& config) = [](matrix::TrainingConfig&) {};
};

class HybridGraphs : public ::testing::TestWithParam<GraphCase> {};

TEST_P(HybridGraphs, EqualEagerAndHoldTheReductionsOfMambaLayers) {
  matrix::Cell cell = hybrid_cell(GetParam().layout, GetParam().impl);
  GetParam().changes(cell.config);
  const bool shares_rows = cell.config.sequence_parallel;
  for (const testing::RankLeg& leg : testing::expect_graphs_equal_eager(cell)) {
    EXPECT_GT(testing::nodes_that_run(leg.record, shares_rows ? "reduce_scatter" : "all_reduce"),
              0U);
  }
}

void share_rows(matrix::TrainingConfig& config) {
  config.sequence_parallel = true;
}
void delay_wgrads(matrix::TrainingConfig& config) {
  config.sequence_parallel = true;
  config.delay_wgrad_compute = true;
}
void recompute_norms(matrix::TrainingConfig& config) {
  config.recompute_granularity = matrix::RecomputeGranularity::selective;
  config.recompute_modules = {RecomputeModule::layernorm};
}
void quantise(matrix::TrainingConfig& config) {
  config.fp8 = matrix::Fp8Format::hybrid;
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, HybridGraphs,
    ::testing::Values(
        GraphCase{"local", CudaGraphImpl::local, {}},
        GraphCase{"local_recompute", CudaGraphImpl::local, {}, recompute_norms},
        GraphCase{"callables", CudaGraphImpl::transformer_engine, {.stages = 2, .chunks = 2}},
        GraphCase{"callables_fp8", CudaGraphImpl::transformer_engine, {}, quantise},
        GraphCase{"callables_delayed", CudaGraphImpl::transformer_engine, {}, delay_wgrads},
        GraphCase{"full_iteration", CudaGraphImpl::full_iteration, {.replicas = 2}},
        GraphCase{"full_iteration_shared_rows", CudaGraphImpl::full_iteration, {}, share_rows}),
    [](const auto& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace cgconform::workloads

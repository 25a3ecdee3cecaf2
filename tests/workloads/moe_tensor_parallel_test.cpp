#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "tests/workloads/expert_cells.hpp"

namespace cgconform::workloads {
namespace {

using matrix::CudaGraphImpl;
using matrix::CudaGraphModule;
using matrix::CudaGraphScope;
using matrix::MoeTokenDispatcherType;
using matrix::RecomputeModule;
using testing::Layout;

matrix::Cell cell_of(const Layout& layout, bool drops, CudaGraphImpl impl = CudaGraphImpl::none,
                     CudaGraphScope scope = {}) {
  return testing::expert_cell(layout, impl, scope, drops ? std::optional(1.0F) : std::nullopt);
}

TEST(ExpertsBesideTensorParallelism, GiveTheLossesAndGradientsOfOneRank) {
  for (const bool drops : {false, true}) {
    testing::expect_results_of_one_rank(cell_of({}, drops));
    testing::expect_results_of_one_rank(cell_of({.replicas = 2, .expert_ranks = 2}, drops));
  }
}

TEST(ExpertsBesideTensorParallelism, GiveThemWhereAllRowsGoToAllRanks) {
  matrix::Cell cell = cell_of({.replicas = 2, .expert_ranks = 2}, false);
  cell.config.moe_token_dispatcher_type = MoeTokenDispatcherType::allgather;
  testing::expect_results_of_one_rank(cell);
}

TEST(ExpertsBesideTensorParallelism, GiveThemInProductsWithReplicasAndStages) {
  testing::expect_results_of_one_rank(cell_of({.replicas = 4, .expert_ranks = 2}, false));
  testing::expect_results_of_one_rank(
      cell_of({.replicas = 2, .expert_ranks = 2, .stages = 2}, true));
}

TEST(ExpertsBesideTensorParallelism, ClipByTheNormOfOneRank) {
  matrix::Cell cell = cell_of({.replicas = 2, .expert_ranks = 2}, true);
  cell.config.params_dtype = matrix::ParamsDtype::fp64;
  cell.config.attention_dropout = 0.0F;
  cell.config.hidden_dropout = 0.0F;
  cell.shape.clip_grad = 0.1F;
  matrix::Cell whole = cell;
  whole.config.num_microbatches *= 2;
  whole.config.tensor_model_parallel_size = 1;
  whole.config.data_parallel_size = 1;
  whole.config.expert_model_parallel_size = 1;
  const auto norm_of = [](const testing::RankLeg& leg) {
    for (const auto& [key, bytes] : leg.bytes) {
      if (std::get<5>(key) == "grad_norm") return testing::doubles_of(bytes).at(0);
    }
    return 0.0;
  };
  const auto ranks = testing::run_ranks(cell, {});
  const double expected = norm_of(testing::run_ranks(whole, {}).at(0));
  EXPECT_GT(expected, 0.1);
  for (const testing::RankLeg& leg : ranks) {
    ASSERT_EQ(leg.record.error, "");
    EXPECT_NEAR(norm_of(leg), expected, 1e-12 * expected);
  }
}

TEST(ExpertsBesideTensorParallelism, NeedExpertsThatHaveEqualParts) {
  matrix::Cell cell = cell_of({}, false);
  cell.config.moe_ffn_hidden_size = 9;
  EXPECT_EQ(testing::run_ranks(cell, {}).at(0).record.error,
            "moe_ffn_hidden_size 9 is not a multiple of tensor_model_parallel_size 2");
}

struct GraphCase {
  const char* name;
  CudaGraphImpl impl;
  CudaGraphScope scope;
  bool drops;
  bool recomputes = false;
};

class ExpertsBesideTensorParallelismInGraphs : public ::testing::TestWithParam<GraphCase> {};

TEST_P(ExpertsBesideTensorParallelismInGraphs, EqualEager) {
  const GraphCase& row = GetParam();
  matrix::Cell cell = cell_of({.replicas = 2, .expert_ranks = 2}, row.drops, row.impl, row.scope);
  if (row.recomputes) {
    cell.config.recompute_granularity = matrix::RecomputeGranularity::selective;
    cell.config.recompute_modules = {RecomputeModule::moe, RecomputeModule::shared_experts};
  }
  const auto ranks = testing::expect_graphs_equal_eager(cell);
  EXPECT_GT(testing::nodes_that_run(ranks.at(0).record, "all_reduce"), 0U);
}

const CudaGraphScope routing{CudaGraphModule::moe_router, CudaGraphModule::moe_preprocess};

INSTANTIATE_TEST_SUITE_P(
    Forms, ExpertsBesideTensorParallelismInGraphs,
    ::testing::Values(
        GraphCase{"local", CudaGraphImpl::local, {}, true},
        GraphCase{"local_routers", CudaGraphImpl::local, routing, false},
        GraphCase{"callables", CudaGraphImpl::transformer_engine, {CudaGraphModule::moe}, true},
        GraphCase{"callables_of_routers", CudaGraphImpl::transformer_engine, routing, false},
        GraphCase{"full_iteration", CudaGraphImpl::full_iteration, {}, true, true}),
    [](const auto& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace cgconform::workloads

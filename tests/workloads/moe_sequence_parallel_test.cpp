#include <cstdint>
#include <optional>
#include <string>

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

/// With a capacity no token is dropped: which ones are
/// depends on the tokens that a rank has.
matrix::Cell cell_of(const Layout& layout, bool pads, CudaGraphImpl impl = CudaGraphImpl::none,
                     CudaGraphScope scope = {}) {
  matrix::Cell cell =
      testing::expert_cell(layout, impl, scope, pads ? std::optional(2.0F) : std::nullopt);
  cell.config.sequence_parallel = true;
  cell.config.num_attention_heads = 4;
  cell.config.moe_router_topk = 2;
  cell.config.moe_router_enable_expert_bias = true;
  return cell;
}

TEST(ExpertsBesideSequenceParallelism, GiveTheLossesAndGradientsOfOneRank) {
  for (const bool pads : {false, true}) {
    testing::expect_results_of_one_rank(cell_of({}, pads));
    testing::expect_results_of_one_rank(cell_of({.parts = 4}, pads));
    testing::expect_results_of_one_rank(cell_of({.replicas = 2, .expert_ranks = 2}, pads));
  }
}

TEST(ExpertsBesideSequenceParallelism, GiveThemWhereAllRowsGoToAllRanks) {
  matrix::Cell cell = cell_of({.replicas = 2, .expert_ranks = 2}, false);
  cell.config.moe_token_dispatcher_type = MoeTokenDispatcherType::allgather;
  testing::expect_results_of_one_rank(cell);
}

TEST(ExpertsBesideSequenceParallelism, DropTokensByTheCapacityOfEachRank) {
  matrix::Cell cell = cell_of({}, true);
  cell.config.moe_expert_capacity_factor = 0.5F;
  for (const testing::RankLeg& leg : testing::run_ranks(cell, {.instrumented = true})) {
    ASSERT_EQ(leg.record.error, "");
    std::size_t calls = 0;
    for (const RoutingRecord& routing : leg.record.routing) {
      if (routing.where.tensor != "routing:slots") continue;
      // Four tokens of two places each, for four experts of one row.
      EXPECT_EQ(routing.values.size(), 8U);
      for (const std::int32_t slot : routing.values) EXPECT_LT(slot, 4);
      ++calls;
    }
    EXPECT_GT(calls, 0U);
  }
}

struct GraphCase {
  const char* name;
  CudaGraphImpl impl;
  CudaGraphScope scope;
  bool pads;
  bool recomputes = false;
  bool delays = false;  ///< gradients of weights
};

class ExpertsBesideSequenceParallelismInGraphs : public ::testing::TestWithParam<GraphCase> {};

TEST_P(ExpertsBesideSequenceParallelismInGraphs, EqualEager) {
  const GraphCase& row = GetParam();
  matrix::Cell cell = cell_of({.replicas = 2, .expert_ranks = 2}, row.pads, row.impl, row.scope);
  cell.config.delay_wgrad_compute = row.delays;
  if (row.recomputes) {
    cell.config.recompute_granularity = matrix::RecomputeGranularity::selective;
    cell.config.recompute_modules = {RecomputeModule::moe, RecomputeModule::shared_experts};
  }
  const auto ranks = testing::expect_graphs_equal_eager(cell);
  EXPECT_GT(testing::nodes_that_run(ranks.at(0).record, "reduce_scatter"), 0U);
}

const CudaGraphScope routing{CudaGraphModule::moe_router, CudaGraphModule::moe_preprocess};

INSTANTIATE_TEST_SUITE_P(
    Forms, ExpertsBesideSequenceParallelismInGraphs,
    ::testing::Values(GraphCase{"local", CudaGraphImpl::local, {}, true},
                      GraphCase{"local_routers", CudaGraphImpl::local, routing, false},
                      GraphCase{"callables",
                                CudaGraphImpl::transformer_engine,
                                {CudaGraphModule::moe},
                                true,
                                false,
                                true},
                      GraphCase{"callables_of_routers", CudaGraphImpl::transformer_engine, routing,
                                false},
                      GraphCase{"full_iteration", CudaGraphImpl::full_iteration, {}, true, true}),
    [](const auto& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace cgconform::workloads

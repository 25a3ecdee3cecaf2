#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/workloads/sharded_results.hpp"
#include "tests/workloads/variant_cells.hpp"

namespace cgconform::workloads {
namespace {

using matrix::CudaGraphImpl;
using matrix::RecomputeModule;
using testing::Layout;

matrix::Cell cell_of(const Layout& layout, CudaGraphImpl impl = CudaGraphImpl::none) {
  matrix::Cell cell = testing::spread_cell(layout, impl);
  cell.config.sequence_parallel = true;
  cell.config.num_attention_heads = 4;
  cell.config.seq_length = 4;
  cell.config.num_microbatches = 2;
  cell.shape.steps = 3;
  return cell;
}

TEST(SequenceParallel, GivesTheLossesAndGradientsOfOneRank) {
  testing::expect_results_of_one_rank(cell_of({.parts = 2}));
  testing::expect_results_of_one_rank(cell_of({.parts = 4}));
}

TEST(SequenceParallel, GivesThemInProductsWithReplicasAndStages) {
  testing::expect_results_of_one_rank(cell_of({.parts = 2, .replicas = 2}));
  testing::expect_results_of_one_rank(cell_of({.parts = 2, .stages = 2, .chunks = 2}));
}

TEST(SequenceParallel, GivesThemWherePackedSequencesCrossTheBordersOfShares) {
  testing::expect_results_of_one_rank(testing::packed(cell_of({.parts = 4})));
}

TEST(SequenceParallel, GivesThemWithImagesBeforeTheText) {
  testing::expect_results_of_one_rank(testing::with_images(cell_of({.parts = 4}), 2));
}

TEST(SequenceParallel, GivesThemWithHeadsMadeFromLatentsOfItsRows) {
  matrix::Cell cell = cell_of({.parts = 4});
  cell.config.multi_latent_attention = true;
  testing::expect_results_of_one_rank(cell);
}

TEST(SequenceParallel, DropsOtherHiddenStatesOnEachRank) {
  const auto ranks = testing::run_ranks(cell_of({}), {.instrumented = true});
  std::size_t different = 0;
  for (const auto& [key, mask] : ranks[0].bytes) {
    const bool hidden = std::get<5>(key) == "dropout_mask:mlp.dropout";
    if (hidden && ranks[1].bytes.at(key) != mask) ++different;
  }
  EXPECT_GT(different, 0U);
}

TEST(SequenceParallel, NeedsSequencesThatHaveEqualShares) {
  matrix::Cell cell = cell_of({.parts = 4});
  cell.config.micro_batch_size = 2;  // Rows alone would have: 12 of 4.
  cell.config.seq_length = 6;
  EXPECT_NE(testing::run_ranks(cell, {}).at(0).record.error.find("seq_length 6"),
            std::string::npos);
}

TEST(SequenceParallel, HasStalePaddingInTheBatchesOfIterationsAlone) {
  const FaultRow& row = fault_row(Fault::f01c_stale_padding_rows);
  EXPECT_FALSE(row.applies(cell_of({}, CudaGraphImpl::local)));
  EXPECT_FALSE(row.applies(cell_of({}, CudaGraphImpl::transformer_engine)));
  const matrix::Cell cell = cell_of({}, CudaGraphImpl::full_iteration);
  ASSERT_TRUE(row.applies(cell));
  FaultSwitches faults;
  faults.turn_on(row.fault);
  for (const testing::RankLeg& leg :
       testing::run_ranks(cell, {.kind = LegKind::graph, .instrumented = true}, faults)) {
    EXPECT_EQ(leg.record.error, "");
    EXPECT_GT(testing::changed_slots(leg.record, SlotKind::static_input), 0U);
  }
}

struct GraphCase {
  const char* name;
  CudaGraphImpl impl;
  Layout layout;
  bool recomputes = false;
  bool delays = false;  ///< gradients of weights
  bool latent = false;
};

class SequenceParallelGraphs : public ::testing::TestWithParam<GraphCase> {};

TEST_P(SequenceParallelGraphs, EqualEagerAndHoldGathersAndScatters) {
  matrix::Cell cell = cell_of(GetParam().layout, GetParam().impl);
  if (GetParam().recomputes) {
    cell.config.recompute_granularity = matrix::RecomputeGranularity::selective;
    cell.config.recompute_modules = {RecomputeModule::mlp, RecomputeModule::layernorm};
  }
  cell.config.delay_wgrad_compute = GetParam().delays;
  cell.config.multi_latent_attention = GetParam().latent;
  if (GetParam().latent && GetParam().recomputes) {
    cell.config.recompute_modules = {RecomputeModule::mla_up_proj, RecomputeModule::layernorm};
  }
  for (const testing::RankLeg& leg : testing::expect_graphs_equal_eager(cell)) {
    EXPECT_GT(testing::nodes_that_run(leg.record, "all_gather"), 0U);
    EXPECT_GT(testing::nodes_that_run(leg.record, "reduce_scatter"), 0U);
    // Of the norms' gradients, where the whole iteration is captured.
    EXPECT_EQ(testing::nodes_that_run(leg.record, "all_reduce") > 0,
              GetParam().impl == CudaGraphImpl::full_iteration);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, SequenceParallelGraphs,
    ::testing::Values(GraphCase{"local", CudaGraphImpl::local, {}},
                      GraphCase{"local_recompute", CudaGraphImpl::local, {}, true},
                      GraphCase{"callables", CudaGraphImpl::transformer_engine, {.stages = 2}},
                      GraphCase{
                          "callables_delayed", CudaGraphImpl::transformer_engine, {}, false, true},
                      GraphCase{.name = "local_latent_recompute",
                                .impl = CudaGraphImpl::local,
                                .recomputes = true,
                                .latent = true},
                      GraphCase{.name = "callables_latent_delayed",
                                .impl = CudaGraphImpl::transformer_engine,
                                .delays = true,
                                .latent = true},
                      GraphCase{"full_iteration", CudaGraphImpl::full_iteration, {.replicas = 2}}),
    [](const auto& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace cgconform::workloads

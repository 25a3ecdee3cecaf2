#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/workloads/pipeline_legs.hpp"

namespace cgconform::workloads {
namespace {

using matrix::CudaGraphImpl;

constexpr LegRequest eager{};
constexpr LegRequest graph{.kind = LegKind::graph, .replay_seed = 5};
constexpr LegRequest instrumented_eager{.instrumented = true};
constexpr LegRequest instrumented_graph{
    .kind = LegKind::graph, .instrumented = true, .replay_seed = 6};

matrix::Cell replicated_cell(CudaGraphImpl impl, std::int32_t replicas, std::int32_t stages = 1) {
  matrix::Cell cell = testing::small_cell(impl);
  cell.config.num_layers = 2 * stages;
  cell.config.pipeline_model_parallel_size = stages;
  cell.config.data_parallel_size = replicas;
  cell.config.num_microbatches = 4;
  cell.shape.bucket_size = 200;
  return cell;
}

std::vector<double> doubles_of(const std::vector<std::byte>& bytes) {
  std::vector<double> values(bytes.size() / sizeof(double));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

/// Gradients of the first step agree up to the order in which micro-batches are added.
void expect_gradients_of_whole_batch(matrix::Cell cell) {
  cell.config.params_dtype = matrix::ParamsDtype::fp64;
  cell.config.attention_dropout = 0.0F;  // replicas drop the same elements of different data
  cell.config.hidden_dropout = 0.0F;
  matrix::Cell whole = cell;
  whole.config.num_microbatches *= cell.config.data_parallel_size;
  whole.config.data_parallel_size = 1;
  whole.config.pipeline_model_parallel_size = 1;
  whole.config.virtual_pipeline_model_parallel_size.reset();
  const auto expected = testing::run_ranks(whole, eager).at(0).bytes;
  std::size_t compared = 0;
  for (const testing::RankLeg& rank : testing::run_ranks(cell, eager)) {
    ASSERT_EQ(rank.record.error, "");
    for (const auto& [key, bytes] : rank.bytes) {
      if (std::get<0>(key) != ObservedQuantity::main_grad || std::get<1>(key) != 0) continue;
      const std::vector<double> own = doubles_of(bytes);
      const std::vector<double> all = doubles_of(expected.at(key));
      ASSERT_EQ(own.size(), all.size());
      for (std::size_t i = 0; i < own.size(); ++i) {
        ASSERT_NEAR(own[i], all[i], 1e-12 * std::max(1.0, std::abs(all[i])))
            << testing::key_text(key) << " element " << i;
      }
      ++compared;
    }
  }
  EXPECT_GT(compared, 0U);
}

TEST(DataParallel, GivesTheGradientsOfOneRankOnTheWholeBatch) {
  expect_gradients_of_whole_batch(replicated_cell(CudaGraphImpl::none, 2));
  expect_gradients_of_whole_batch(replicated_cell(CudaGraphImpl::none, 3));
}

TEST(DataParallel, GivesThemInPipelinesToo) {
  matrix::Cell cell = replicated_cell(CudaGraphImpl::none, 2, 2);
  expect_gradients_of_whole_batch(cell);
  cell.config.virtual_pipeline_model_parallel_size = 2;
  expect_gradients_of_whole_batch(cell);
}

TEST(DataParallel, EndsAStepWithEqualGradientsOnAllReplicasOfDifferentData) {
  const auto ranks = testing::run_ranks(replicated_cell(CudaGraphImpl::none, 2), eager);
  std::size_t different = 0;
  for (const auto& [key, bytes] : ranks[0].bytes) {
    const auto& other = ranks[1].bytes.at(key);
    if (std::get<0>(key) == ObservedQuantity::input_batch && other != bytes) ++different;
    if (std::get<0>(key) == ObservedQuantity::main_grad) {
      EXPECT_EQ(other, bytes) << testing::key_text(key);
    }
  }
  EXPECT_GT(different, 0U);
}

TEST(DataParallel, ReducesABucketOnlyAfterTheLastBackwardOfItsParameters) {
  const LegRecord record =
      std::move(testing::run_ranks(replicated_cell(CudaGraphImpl::none, 2), eager).at(0).record);
  std::map<std::int32_t, std::set<std::string>> reduced;
  std::size_t before_the_end = 0;
  for (const ReductionRecord& reduction : record.reductions) {
    for (const std::string& name : reduction.parameters) {
      EXPECT_TRUE(reduced[reduction.step].insert(name).second) << name << " is reduced twice";
    }
    std::size_t last_of_step = 0;
    for (std::size_t i = 0; i < record.executions.size(); ++i) {
      const ExecutionRecord& execution = record.executions[i];
      if (execution.step != reduction.step || execution.validation) continue;
      last_of_step = i;
      const bool of_bucket =
          std::count(reduction.layers.begin(), reduction.layers.end(), execution.layer) > 0;
      if (of_bucket && !execution.forward) {
        EXPECT_LT(i, reduction.executions_before) << "bucket " << reduction.bucket;
      }
    }
    if (reduction.executions_before <= last_of_step) ++before_the_end;
  }
  EXPECT_EQ(reduced.size(), 4U) << "steps";
  EXPECT_EQ(reduced[0].size(), 29U) << "parameters of two layers, embedding and head";
  EXPECT_GT(before_the_end, 0U) << "nothing overlaps";
}

TEST(DataParallel, ReducesAtTheEndWithoutOverlapAndInOneBucketWhereItFits) {
  matrix::Cell cell = replicated_cell(CudaGraphImpl::none, 2);
  cell.config.overlap_grad_reduce = false;
  const LegRecord record = std::move(testing::run_ranks(cell, eager).at(0).record);
  for (const ReductionRecord& reduction : record.reductions) {
    for (std::size_t i = reduction.executions_before; i < record.executions.size(); ++i) {
      EXPECT_NE(record.executions[i].step, reduction.step);
    }
  }
  cell.shape.bucket_size = 1 << 20;
  EXPECT_EQ(testing::run_ranks(cell, eager).at(0).record.reductions.size(), 4U);
}

struct GraphCase {
  const char* name;
  CudaGraphImpl impl;
  std::int32_t stages;
  std::int32_t chunks;
};

class DataParallelGraphs : public ::testing::TestWithParam<GraphCase> {};

TEST_P(DataParallelGraphs, EqualEagerAndHoldReductionsOnlyWhereTheIterationIsCaptured) {
  matrix::Cell cell = replicated_cell(GetParam().impl, 2, GetParam().stages);
  if (GetParam().chunks > 1) {
    cell.config.virtual_pipeline_model_parallel_size = GetParam().chunks;
  }
  const bool whole_iteration = GetParam().impl == CudaGraphImpl::full_iteration;
  for (const auto& [reference, request] :
       {std::pair{eager, graph}, std::pair{instrumented_eager, instrumented_graph}}) {
    const auto expected = testing::run_ranks(cell, reference);
    const auto actual = testing::run_ranks(cell, request);
    for (std::size_t rank = 0; rank < actual.size(); ++rank) {
      const LegRecord& record = actual[rank].record;
      ASSERT_EQ(record.error, "");
      EXPECT_EQ(testing::differences(expected[rank].bytes, actual[rank].bytes,
                                     request.instrumented || !whole_iteration),
                std::vector<std::string>{});
      EXPECT_TRUE(record.edge_findings.empty());
      EXPECT_TRUE(record.address_findings.empty());
      for (const SlotRecord& slot : record.slots) {
        EXPECT_EQ(slot.hash_at_production, slot.hash_at_use) << slot.where.tensor;
      }
      std::size_t reductions = 0;
      for (const GraphRecord& captured : record.graphs) {
        for (const GraphNode& node : captured.nodes) {
          if (node.op_name == "all_reduce") ++reductions;
        }
      }
      EXPECT_EQ(reductions > 0, whole_iteration);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, DataParallelGraphs,
    ::testing::Values(GraphCase{"local", CudaGraphImpl::local, 1, 1},
                      GraphCase{"callables", CudaGraphImpl::transformer_engine, 1, 1},
                      GraphCase{"full_iteration", CudaGraphImpl::full_iteration, 1, 1},
                      GraphCase{"full_iteration_pipeline", CudaGraphImpl::full_iteration, 2, 1},
                      GraphCase{"callables_interleaved", CudaGraphImpl::transformer_engine, 2, 2}),
    [](const auto& row) { return row.param.name; });

}  // namespace
}  // namespace cgconform::workloads

#include <string>

#include <gmock/gmock.h>

#include "tests/workloads/training_legs.hpp"

namespace cgconform::workloads::testing {
namespace {

using matrix::CudaGraphImpl;
using ::testing::IsEmpty;

matrix::Cell graphed(CudaGraphImpl impl, std::int32_t warmup = 1) {
  matrix::Cell cell = small_cell(impl);
  cell.config.optimizer_cuda_graph = true;
  cell.config.cuda_graph_warmup_steps = warmup;
  return cell;
}

const GraphRecord* optimizer_of(const LegRecord& record) {
  for (const GraphRecord& graph : record.graphs) {
    if (graph.scope == "optimizer") return &graph;
  }
  return nullptr;
}

std::vector<double> learning_rates(const LegRecord& record, Device& device) {
  std::vector<double> rates;
  for (const auto& [key, bytes] : bytes_of(record, device)) {
    if (std::get<5>(key) != "learning_rate") continue;
    float rate = 0.0F;
    std::memcpy(&rate, bytes.data(), sizeof(rate));
    rates.push_back(static_cast<double>(rate));
  }
  return rates;
}

class OptimizerGraphs : public OneRankLegs {};

TEST_F(OptimizerGraphs, EqualEagerBesideEveryImplementation) {
  for (const CudaGraphImpl impl :
       {CudaGraphImpl::local, CudaGraphImpl::transformer_engine, CudaGraphImpl::full_iteration}) {
    for (const std::int32_t warmup : {0, 1, 2}) {
      const LegRecord expected = run(graphed(impl, warmup), eager);
      const LegRecord actual = run(graphed(impl, warmup), graph);
      ASSERT_EQ(actual.error, "");
      EXPECT_THAT(differences(bytes_of(expected, device()), bytes_of(actual, device()),
                              impl != CudaGraphImpl::full_iteration),
                  IsEmpty())
          << static_cast<int>(impl) << " warm-up " << warmup;
    }
  }
}

TEST_F(OptimizerGraphs, AreCapturedByTheirOwnCountOfCalls) {
  for (const std::int32_t warmup : {0, 2}) {
    const LegRecord record = run(graphed(CudaGraphImpl::local, warmup), graph);
    const GraphRecord* optimizer = optimizer_of(record);
    ASSERT_NE(optimizer, nullptr);
    EXPECT_EQ(optimizer->capture_step, warmup);
    EXPECT_EQ(optimizer->launches,
              static_cast<std::uint64_t>(record.executions.back().step + 1 - warmup));
  }
}

TEST_F(OptimizerGraphs, ShareThePoolOfTheIterationUnlessPoolsAreSeparate) {
  matrix::Cell cell = graphed(CudaGraphImpl::full_iteration);
  EXPECT_FALSE(run(cell, graph).pools.contains("graph optimizer"));
  cell.config.cuda_graph_use_single_mempool = false;
  EXPECT_TRUE(run(cell, graph).pools.contains("graph optimizer"));
}

TEST_F(OptimizerGraphs, AreLeftOutWhereTheConfigurationDoesNotAsk) {
  matrix::Cell cell = graphed(CudaGraphImpl::local);
  cell.config.optimizer_cuda_graph = false;
  EXPECT_EQ(optimizer_of(run(cell, graph)), nullptr);
}

TEST_F(OptimizerGraphs, FollowALearningRateThatIsNeverTheSameTwice) {
  const std::vector<double> rates =
      learning_rates(run(graphed(CudaGraphImpl::full_iteration), graph), device());
  ASSERT_GE(rates.size(), 4U);
  for (std::size_t i = 1; i < rates.size(); ++i) EXPECT_NE(rates[i], rates[i - 1]);
}

}  // namespace
}  // namespace cgconform::workloads::testing

#include <chrono>
#include <exception>
#include <thread>

#include "tests/workloads/training_legs.hpp"
#include "workloads/device/memory_store.hpp"
#include "workloads/faults/fault_table.hpp"

namespace cgconform::workloads {
namespace {

using matrix::CudaGraphImpl;

/// What is compared and counted of one rank's leg, taken before its device goes.
struct RankResult {
  LegRecord record;  ///< without snapshots
  testing::ObservedBytes bytes;
};

matrix::Cell pipeline_cell(CudaGraphImpl impl, std::int32_t stages) {
  matrix::Cell cell = testing::small_cell(impl);
  cell.config.num_layers = 4;
  cell.config.pipeline_model_parallel_size = stages;
  return cell;
}

/// Runs the legs of a cell on ranks that are threads, each with a device of its own.
std::vector<RankResult> run_ranks(const matrix::Cell& cell, const LegRequest& request,
                                  const FaultSwitches& faults = {}) {
  const int size = cell.ranks();
  const auto store = std::make_shared<MemoryStore>();
  std::vector<RankResult> results(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  threads.reserve(static_cast<std::size_t>(size));
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      RankResult& result = results[static_cast<std::size_t>(rank)];
      try {
        const auto device = create_reference_device({.arena_bytes = 64 << 20});
        const auto gang = device->create_communicator(
            {.name = "gang", .rank = rank, .size = size, .store = store});
        LegRecord record = run_leg(cell, request,
                                   {.device = *device,
                                    .gang = size > 1 ? gang.get() : nullptr,
                                    .seed = 11,
                                    .faults = faults});
        result.bytes = testing::bytes_of(record, *device);
        EXPECT_EQ(gang->live_graph_references(), 0);
        record.observations.clear();
        record.memory.reset();
        result.record = std::move(record);
      } catch (const std::exception& error) {
        result.record.error = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

std::vector<RankResult> run_ranks(const matrix::Cell& cell, const LegRequest& request,
                                  Fault fault) {
  FaultSwitches faults;
  faults.turn_on(fault);
  return run_ranks(cell, request, faults);
}

constexpr LegRequest eager{};
constexpr LegRequest graph{.kind = LegKind::graph, .replay_seed = 5};
constexpr LegRequest instrumented_eager{.instrumented = true};
constexpr LegRequest instrumented_graph{
    .kind = LegKind::graph, .instrumented = true, .replay_seed = 6};

TEST(Pipeline, TwoStagesTrainLikeOne) {
  matrix::Cell cell = pipeline_cell(CudaGraphImpl::none, 1);
  // Without dropout: stages draw from streams of their own.
  cell.config.attention_dropout = 0.0F;
  cell.config.hidden_dropout = 0.0F;
  const auto whole = run_ranks(cell, eager).at(0).bytes;
  for (const std::int32_t stages : {2, 4}) {
    cell.config.pipeline_model_parallel_size = stages;
    std::size_t compared = 0;
    for (const RankResult& rank : run_ranks(cell, eager)) {
      ASSERT_EQ(rank.record.error, "");
      for (const auto& [key, bytes] : rank.bytes) {
        const bool state = std::get<0>(key) == ObservedQuantity::main_grad ||
                           std::get<0>(key) == ObservedQuantity::weight ||
                           std::get<0>(key) == ObservedQuantity::loss;
        if (!state) continue;
        EXPECT_EQ(whole.at(key), bytes) << testing::key_text(key);
        ++compared;
      }
    }
    EXPECT_GT(compared, 0U);
  }
}

class PipelineGraphs : public ::testing::TestWithParam<CudaGraphImpl> {};

TEST_P(PipelineGraphs, EqualEagerBitForBitOnEveryRank) {
  const matrix::Cell cell = pipeline_cell(GetParam(), 2);
  const auto expected = run_ranks(cell, eager);
  const auto actual = run_ranks(cell, graph);
  const bool complete = GetParam() == CudaGraphImpl::local;
  for (std::size_t rank = 0; rank < actual.size(); ++rank) {
    ASSERT_EQ(actual[rank].record.error, "");
    EXPECT_FALSE(actual[rank].record.graphs.empty());
    EXPECT_EQ(testing::differences(expected[rank].bytes, actual[rank].bytes, complete),
              std::vector<std::string>{});
  }
}

TEST_P(PipelineGraphs, EqualEagerWithInstrumentsAndLeaveNoFindings) {
  matrix::Cell cell = pipeline_cell(GetParam(), 2);
  cell.shape.eval_interval = 2;
  const auto expected = run_ranks(cell, instrumented_eager);
  const auto actual = run_ranks(cell, instrumented_graph);
  for (std::size_t rank = 0; rank < actual.size(); ++rank) {
    const LegRecord& record = actual[rank].record;
    ASSERT_EQ(record.error, "");
    EXPECT_EQ(testing::differences(expected[rank].bytes, actual[rank].bytes),
              std::vector<std::string>{});
    for (const AddressFinding& finding : record.address_findings) {
      ADD_FAILURE() << finding.reason << ": " << finding.op << " " << finding.operand;
    }
    EXPECT_TRUE(record.edge_findings.empty());
    for (const SlotRecord& slot : record.slots) {
      EXPECT_EQ(slot.hash_at_production, slot.hash_at_use) << slot.where.tensor;
    }
    EXPECT_EQ(record.live_bytes_after_teardown, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Implementations, PipelineGraphs,
                         ::testing::Values(CudaGraphImpl::local, CudaGraphImpl::full_iteration),
                         [](const auto& row) {
                           return row.param == CudaGraphImpl::local ? "local" : "full_iteration";
                         });

TEST(Pipeline, LocalHasARunnerForEveryLayerAndMicrobatchInScheduleOrder) {
  const auto ranks = run_ranks(pipeline_cell(CudaGraphImpl::local, 2), graph);
  const auto names = [](const LegRecord& record) {
    std::vector<std::string> all;
    for (const GraphRecord& captured : record.graphs) all.push_back(captured.name);
    return all;
  };
  // Two layers a stage, three micro-batches, forward and backward.
  ASSERT_EQ(ranks[0].record.graphs.size(), 12U);
  ASSERT_EQ(ranks[1].record.graphs.size(), 12U);
  const std::vector<std::string> first = names(ranks[0].record);
  EXPECT_EQ(
      std::vector<std::string>(first.begin(), first.begin() + 6),
      (std::vector<std::string>{"layer 0 forward microbatch 0", "layer 1 forward microbatch 0",
                                "layer 0 forward microbatch 1", "layer 1 forward microbatch 1",
                                "layer 1 backward microbatch 0", "layer 0 backward microbatch 0"}));
  const std::vector<std::string> last = names(ranks[1].record);
  EXPECT_EQ(last[2], "layer 3 backward microbatch 0");
  for (const GraphRecord& captured : ranks[0].record.graphs) EXPECT_EQ(captured.launches, 3U);
}

TEST(Pipeline, OneRunnerForTwoMicrobatchesInFlightOverwritesActivations) {
  const matrix::Cell cell = pipeline_cell(CudaGraphImpl::local, 2);
  ASSERT_TRUE(fault_row(Fault::f04a_shared_output_slot).applies(cell));
  const auto expected = run_ranks(cell, instrumented_eager);
  const auto ranks = run_ranks(cell, instrumented_graph, Fault::f04a_shared_output_slot);
  ASSERT_EQ(ranks[0].record.error, "");
  EXPECT_GT(testing::changed_slots(ranks[0].record, SlotKind::saved_activation), 0U);
  EXPECT_FALSE(testing::differences(expected[0].bytes, ranks[0].bytes).empty());
}

}  // namespace
}  // namespace cgconform::workloads

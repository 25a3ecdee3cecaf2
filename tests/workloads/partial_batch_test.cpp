#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "tests/workloads/pipeline_legs.hpp"
#include "tests/workloads/variant_cells.hpp"

namespace cgconform::workloads::testing {
namespace {

using matrix::CudaGraphImpl;
using matrix::LastBatch;
using ::testing::IsEmpty;

constexpr LegRequest eager_leg{};
constexpr LegRequest graph_leg{.kind = LegKind::graph, .replay_seed = 5};

matrix::Cell partial_cell(CudaGraphImpl impl, LastBatch last) {
  matrix::Cell cell = small_cell(impl);
  cell.config.seq_length = 4;
  cell.shape.last_batch = last;
  return cell;
}

matrix::Cell hybrid(matrix::Cell cell) {
  cell.config.is_hybrid_model = true;
  cell.config.hybrid_layer_pattern = *matrix::HybridPattern::parse("M*");
  return cell;
}

matrix::Cell long_and_packed(matrix::Cell cell) {
  cell.config.seq_length = 8;
  return packed(cell);
}

matrix::Cell with_two_rows_of_images(matrix::Cell cell) {
  return with_images(cell, 2);
}

matrix::Cell in_8_bits(matrix::Cell cell) {
  cell.config.params_dtype = matrix::ParamsDtype::bf16;
  cell.config.bf16 = true;
  cell.config.fp8 = matrix::Fp8Format::hybrid;
  cell.config.fp8_amax_history_len = 2;
  return cell;
}

/// Training executions of a step's last micro-batch, or of its iteration, that were replayed.
std::size_t replays_of_last(const LegRecord& record, std::int32_t step, std::int32_t last) {
  std::size_t count = 0;
  for (const ExecutionRecord& execution : record.executions) {
    const bool of_last = execution.layer < 0 || execution.microbatch == last;
    if (execution.step == step && of_last && execution.replayed && !execution.validation) ++count;
  }
  return count;
}

class PartialBatches : public OneRankLegs {};

TEST_F(PartialBatches, GiveTheSameWhetherTheyArePaddedOrNot) {
  for (const auto& variant :
       {+[](matrix::Cell cell) { return cell; }, &long_and_packed, &with_two_rows_of_images}) {
    const auto bytes_with = [&](LastBatch last) {
      return bytes_of(run(variant(partial_cell(CudaGraphImpl::none, last)), eager), device());
    };
    const auto padded = bytes_with(LastBatch::padded);
    std::size_t gradients = 0;
    for (const auto& [key, bytes] : bytes_with(LastBatch::eager)) {
      const ObservedQuantity quantity = std::get<0>(key);
      if (quantity == ObservedQuantity::main_grad) ++gradients;
      // Tensors of single layers have rows of padding in one of the two.
      if (quantity == ObservedQuantity::layer_output ||
          quantity == ObservedQuantity::layer_grad_input) {
        continue;
      }
      EXPECT_EQ(bytes, padded.at(key)) << key_text(key);
    }
    EXPECT_GT(gradients, 0U);
  }
}

TEST_F(PartialBatches, HoldHalfOfTheSequencesInEveryThirdStep) {
  const LegRecord record = run(partial_cell(CudaGraphImpl::none, LastBatch::eager), eager);
  std::size_t partial = 0;
  for (const Observation& observation : record.observations) {
    if (observation.quantity != ObservedQuantity::layer_output) continue;
    const bool half = observation.where.step % 3 == 2 && observation.where.microbatch == 2;
    EXPECT_EQ(observation.snapshot.view().shape[0], half ? 4 : 8);
    if (half) ++partial;
  }
  EXPECT_GT(partial, 0U);
}

TEST_F(PartialBatches, RunEagerlyBesideGraphsOrPaddedFromThem) {
  for (const CudaGraphImpl impl :
       {CudaGraphImpl::local, CudaGraphImpl::transformer_engine, CudaGraphImpl::full_iteration}) {
    for (const auto& [last, cell] :
         {std::pair{LastBatch::padded, partial_cell(impl, LastBatch::padded)},
          std::pair{LastBatch::eager, partial_cell(impl, LastBatch::eager)},
          std::pair{LastBatch::eager, in_8_bits(partial_cell(impl, LastBatch::eager))},
          std::pair{LastBatch::padded, long_and_packed(partial_cell(impl, LastBatch::padded))},
          std::pair{LastBatch::eager, long_and_packed(partial_cell(impl, LastBatch::eager))},
          std::pair{LastBatch::padded,
                    with_two_rows_of_images(partial_cell(impl, LastBatch::padded))},
          std::pair{LastBatch::eager,
                    with_two_rows_of_images(partial_cell(impl, LastBatch::eager))},
          std::pair{LastBatch::padded, hybrid(partial_cell(impl, LastBatch::padded))},
          std::pair{LastBatch::eager, hybrid(partial_cell(impl, LastBatch::eager))}}) {
      const LegRecord record = run(cell, graph);
      ASSERT_EQ(record.error, "");
      EXPECT_THAT(differences(bytes_of(run(cell, eager), device()), bytes_of(record, device()),
                              impl != CudaGraphImpl::full_iteration),
                  IsEmpty())
          << static_cast<int>(impl);
      EXPECT_EQ(replays_of_last(record, 2, 2) == 0, last == LastBatch::eager);
      EXPECT_GT(replays_of_last(record, 3, 2), 0U) << "the next step is full again";
    }
  }
}

TEST_F(PartialBatches, AreNotCapturedWhereTheyMeetTheCapture) {
  matrix::Cell cell = partial_cell(CudaGraphImpl::full_iteration, LastBatch::eager);
  cell.config.cuda_graph_warmup_steps = 2;
  const LegRecord record = run(cell, graph);
  ASSERT_EQ(record.graphs.size(), 1U);
  EXPECT_EQ(record.graphs.front().capture_step, 3);
  EXPECT_THAT(differences(bytes_of(run(cell, eager), device()), bytes_of(record, device()), false),
              IsEmpty());
}

TEST_F(PartialBatches, ThatKeepRowsOfTheLastFullOneAreSeen) {
  const matrix::Cell cell = partial_cell(CudaGraphImpl::full_iteration, LastBatch::padded);
  EXPECT_THAT(
      differences(bytes_of(run(cell, eager), device()),
                  bytes_of(run(cell, graph, Fault::f01f_missing_sequences_not_cleared), device()),
                  false),
      ::testing::Contains(::testing::HasSubstr("loss step 2")));
}

TEST(PartialBatchesOfRanks, PassThroughPipelinesReplicasAndParts) {
  for (const CudaGraphImpl impl : {CudaGraphImpl::local, CudaGraphImpl::full_iteration}) {
    matrix::Cell cell = partial_cell(impl, LastBatch::eager);
    cell.config.pipeline_model_parallel_size = 2;
    cell.config.data_parallel_size = 2;
    const auto expected = run_ranks(cell, eager_leg);
    const auto actual = run_ranks(cell, graph_leg);
    for (std::size_t rank = 0; rank < actual.size(); ++rank) {
      ASSERT_EQ(actual[rank].record.error, "");
      EXPECT_THAT(differences(expected[rank].bytes, actual[rank].bytes, false), IsEmpty());
      EXPECT_EQ(replays_of_last(actual[rank].record, 2, 2), 0U);
    }
  }
}

TEST(PartialBatchesOfRanks, GiveTheLossesOfOneRankWhereRanksShareRows) {
  for (const LastBatch last : {LastBatch::eager, LastBatch::padded}) {
    matrix::Cell cell = partial_cell(CudaGraphImpl::none, last);
    cell.config.params_dtype = matrix::ParamsDtype::fp64;
    cell.config.attention_dropout = 0.0F;
    cell.config.hidden_dropout = 0.0F;
    const auto whole = run_ranks(cell, eager_leg);
    cell.config.tensor_model_parallel_size = 2;
    cell.config.sequence_parallel = true;
    std::size_t compared = 0;
    for (const RankLeg& leg : run_ranks(cell, eager_leg)) {
      ASSERT_EQ(leg.record.error, "");
      for (const auto& [key, bytes] : leg.bytes) {
        if (std::get<0>(key) != ObservedQuantity::loss) continue;
        double own = 0.0;
        double expected = 0.0;
        std::memcpy(&own, bytes.data(), sizeof own);
        std::memcpy(&expected, whole.at(0).bytes.at(key).data(), sizeof expected);
        EXPECT_NEAR(own, expected, 1e-9) << key_text(key);
        ++compared;
      }
    }
    EXPECT_GE(compared, 2U * 3U * 3U) << "of two ranks, three steps and three micro-batches";
  }
}

TEST(PartialBatchesOfRanks, RunBesideGraphsWhereRanksShareRows) {
  for (const auto& [impl, last] : {std::pair{CudaGraphImpl::local, LastBatch::eager},
                                   std::pair{CudaGraphImpl::transformer_engine, LastBatch::eager},
                                   std::pair{CudaGraphImpl::full_iteration, LastBatch::padded}}) {
    matrix::Cell cell = partial_cell(impl, last);
    cell.config.tensor_model_parallel_size = 2;
    cell.config.sequence_parallel = true;
    const auto expected = run_ranks(cell, eager_leg);
    const auto actual = run_ranks(cell, graph_leg);
    for (std::size_t rank = 0; rank < actual.size(); ++rank) {
      ASSERT_EQ(actual[rank].record.error, "");
      EXPECT_THAT(differences(expected[rank].bytes, actual[rank].bytes, false), IsEmpty());
      EXPECT_EQ(replays_of_last(actual[rank].record, 2, 2) == 0, last == LastBatch::eager);
    }
  }
}

}  // namespace
}  // namespace cgconform::workloads::testing

#include "workloads/training/parameter_gather.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "tests/workloads/pipeline_legs.hpp"

namespace cgconform::workloads::testing {
namespace {

using matrix::CudaGraphImpl;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr LegRequest eager_leg{};
constexpr LegRequest graph_leg{.kind = LegKind::graph, .replay_seed = 5};

matrix::Cell gathering_cell(CudaGraphImpl impl, bool overlaps = true) {
  matrix::Cell cell = small_cell(impl);
  cell.config.seq_length = 4;
  cell.config.num_microbatches = 1;
  cell.config.data_parallel_size = 2;
  cell.config.use_distributed_optimizer = true;
  cell.config.overlap_param_gather = overlaps;
  cell.shape.bucket_size = 512;
  return cell;
}

/// Tensors of these quantities, at least one on each rank, are the same bytes.
void expect_equal_on_all_ranks(const std::vector<RankLeg>& expected,
                               const std::vector<RankLeg>& actual,
                               std::initializer_list<ObservedQuantity> quantities) {
  ASSERT_EQ(expected.size(), actual.size());
  for (std::size_t rank = 0; rank < actual.size(); ++rank) {
    ASSERT_EQ(actual[rank].record.error, "");
    std::size_t compared = 0;
    for (const auto& [key, bytes] : expected[rank].bytes) {
      const auto wanted = std::find(quantities.begin(), quantities.end(), std::get<0>(key));
      if (wanted == quantities.end()) continue;
      ASSERT_TRUE(actual[rank].bytes.contains(key)) << key_text(key);
      EXPECT_EQ(actual[rank].bytes.at(key), bytes) << key_text(key) << " rank " << rank;
      ++compared;
    }
    EXPECT_GT(compared, 0U);
  }
}

TEST(SharesOfParameters, CoverABucketWithoutOverlap) {
  std::vector<float> memory(32 * 7 + 5);
  const TensorView bucket{memory.data(), DType::fp32, {static_cast<std::int64_t>(memory.size())}};
  for (const int replicas : {1, 2, 3, 4, 16}) {
    const auto* next = static_cast<const std::byte*>(bucket.data);
    for (int rank = 0; rank < replicas; ++rank) {
      const TensorView share = share_of(bucket, rank, replicas);
      EXPECT_EQ(share.data, next) << replicas << " " << rank;
      next += share.bytes();
    }
    EXPECT_EQ(next, static_cast<const std::byte*>(bucket.data) + bucket.bytes()) << replicas;
  }
}

TEST(SharedOutParameters, TrainAsIfEveryReplicaHadSteppedAll) {
  for (const matrix::Optimizer optimizer : {matrix::Optimizer::adam, matrix::Optimizer::sgd}) {
    matrix::Cell cell = gathering_cell(CudaGraphImpl::none, false);
    cell.shape.optimizer = optimizer;
    cell.shape.clip_grad = 0.5F;
    matrix::Cell whole = cell;
    whole.config.use_distributed_optimizer = false;
    const auto expected = run_ranks(whole, eager_leg);
    const auto actual = run_ranks(cell, eager_leg);
    expect_equal_on_all_ranks(
        expected, actual,
        {ObservedQuantity::loss, ObservedQuantity::main_grad, ObservedQuantity::weight});
  }
}

/// Experts over two of `replicas` ranks.
matrix::Cell with_experts(matrix::Cell cell, std::int32_t replicas) {
  cell.config.data_parallel_size = replicas;
  cell.config.expert_model_parallel_size = 2;
  cell.config.num_moe_experts = 4;
  cell.config.moe_layer_freq.every = 2;
  cell.config.moe_token_dispatcher_type = matrix::MoeTokenDispatcherType::alltoall;
  cell.config.moe_expert_capacity_factor = 1.0F;
  cell.config.moe_pad_expert_input_to_capacity = true;
  return cell;
}

TEST(SharedOutParameters, OfExpertsAreThoseOfTheRanksThatHoldThem) {
  for (const std::int32_t replicas : {2, 4}) {
    matrix::Cell cell = with_experts(gathering_cell(CudaGraphImpl::none), replicas);
    cell.shape.clip_grad = 0.5F;
    matrix::Cell whole = cell;
    whole.config.use_distributed_optimizer = false;
    whole.config.overlap_param_gather = false;
    const auto expected = run_ranks(whole, eager_leg);
    const auto actual = run_ranks(cell, eager_leg);
    expect_equal_on_all_ranks(expected, actual,
                              {ObservedQuantity::loss, ObservedQuantity::main_grad});
    const auto elements_of_state = [](const RankLeg& leg) {
      std::map<bool, std::size_t> bytes;  // by whether they are of experts
      for (const auto& [key, value] : leg.bytes) {
        const std::string& name = std::get<5>(key);
        if (name.starts_with("exp_avg:") && std::get<1>(key) == 0) {
          bytes[name.find(".experts.") != std::string::npos] += value.size();
        }
      }
      return bytes;
    };
    // A rank of two that hold the same experts steps half of them.
    std::map<bool, std::size_t> stepped;
    for (const RankLeg& leg : actual) {
      for (const auto& [experts, bytes] : elements_of_state(leg)) stepped[experts] += bytes;
    }
    const auto all = elements_of_state(expected[0]);
    EXPECT_EQ(stepped.at(true), 2 * all.at(true)) << "two halves of the experts";
    EXPECT_EQ(stepped.at(false), all.at(false));
  }
}

TEST(SharedOutParameters, AreReadByTheNextForwardWhetherItsHooksGatherThemOrTheStepDoes) {
  matrix::Cell cell = gathering_cell(CudaGraphImpl::none);
  cell.config.num_layers = 4;
  cell.config.pipeline_model_parallel_size = 2;
  cell.config.virtual_pipeline_model_parallel_size = 2;
  cell.config.num_microbatches = 2;
  cell.shape.eval_interval = 2;
  matrix::Cell at_once = cell;
  at_once.config.overlap_param_gather = false;
  const auto expected = run_ranks(at_once, eager_leg);
  const auto actual = run_ranks(cell, eager_leg);
  expect_equal_on_all_ranks(
      expected, actual,
      {ObservedQuantity::layer_output, ObservedQuantity::loss, ObservedQuantity::main_grad});
  for (std::size_t rank = 0; rank < actual.size(); ++rank) {
    EXPECT_TRUE(expected[rank].record.gathers.empty());
    EXPECT_FALSE(actual[rank].record.gathers.empty());
    for (const GatherRecord& gather : actual[rank].record.gathers) EXPECT_GT(gather.step, 0);
  }
}

TEST(GatheringHooks, StayOutsideOfGraphsOfLayersAndInsideOfThoseOfIterations) {
  for (const CudaGraphImpl impl :
       {CudaGraphImpl::local, CudaGraphImpl::transformer_engine, CudaGraphImpl::full_iteration}) {
    const matrix::Cell cell = gathering_cell(impl);
    const auto expected = run_ranks(cell, eager_leg);
    const auto actual = run_ranks(cell, graph_leg);
    for (std::size_t rank = 0; rank < actual.size(); ++rank) {
      const LegRecord& record = actual[rank].record;
      ASSERT_EQ(record.error, "");
      EXPECT_THAT(differences(expected[rank].bytes, actual[rank].bytes, false), IsEmpty());
      for (const GraphRecord& one : record.graphs) {
        const auto gathers =
            std::count_if(one.nodes.begin(), one.nodes.end(), [](const GraphNode& node) {
              return node.label.find("parameter gather") != std::string::npos;
            });
        EXPECT_EQ(gathers > 0, impl == CudaGraphImpl::full_iteration) << one.name;
      }
    }
  }
}

TEST(GatheringHooks, GatherExpertsBesideGraphsAndInThem) {
  for (const CudaGraphImpl impl : {CudaGraphImpl::local, CudaGraphImpl::full_iteration}) {
    const matrix::Cell cell = with_experts(gathering_cell(impl), 4);
    const auto expected = run_ranks(cell, eager_leg);
    const auto actual = run_ranks(cell, graph_leg);
    for (std::size_t rank = 0; rank < actual.size(); ++rank) {
      ASSERT_EQ(actual[rank].record.error, "");
      EXPECT_THAT(differences(expected[rank].bytes, actual[rank].bytes, false), IsEmpty());
      EXPECT_FALSE(actual[rank].record.gathers.empty());
    }
  }
}

TEST(GatheringHooks, ThatAreLeftOutLeaveReplaysWithParametersOfAnEarlierStep) {
  for (const CudaGraphImpl impl :
       {CudaGraphImpl::transformer_engine, CudaGraphImpl::full_iteration}) {
    const matrix::Cell cell = gathering_cell(impl);
    FaultSwitches faults;
    faults.turn_on(Fault::f01g_parameters_not_gathered);
    const auto expected = run_ranks(cell, eager_leg);
    const auto actual = run_ranks(cell, graph_leg, faults);
    ASSERT_EQ(actual[0].record.error, "");
    EXPECT_THAT(differences(expected[0].bytes, actual[0].bytes, false),
                Contains(HasSubstr("loss step 2")));
  }
}

}  // namespace
}  // namespace cgconform::workloads::testing

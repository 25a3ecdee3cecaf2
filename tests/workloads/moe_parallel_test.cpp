#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/workloads/pipeline_legs.hpp"

namespace cgconform::workloads {
namespace {

using matrix::CudaGraphImpl;
using matrix::CudaGraphModule;
using matrix::CudaGraphScope;
using matrix::MoeTokenDispatcherType;

constexpr LegRequest eager{};
constexpr LegRequest instrumented_eager{.instrumented = true};
constexpr LegRequest instrumented_graph{
    .kind = LegKind::graph, .instrumented = true, .replay_seed = 6};

struct Spread {
  const char* name;
  std::int32_t replicas;
  std::int32_t ranks;  ///< of an expert-parallel group
  bool drops;
  MoeTokenDispatcherType dispatcher;
};

class ExpertParallel : public ::testing::TestWithParam<Spread> {
 protected:
  static matrix::Cell cell(CudaGraphImpl impl = CudaGraphImpl::none, CudaGraphScope scope = {}) {
    matrix::Cell cell = testing::small_cell(impl);
    cell.config.cuda_graph_scope = scope;
    cell.config.seq_length = 4;
    cell.config.params_dtype = matrix::ParamsDtype::fp64;
    cell.config.num_microbatches = 2;
    cell.config.data_parallel_size = GetParam().replicas;
    cell.config.expert_model_parallel_size = GetParam().ranks;
    cell.config.num_moe_experts = 4;
    cell.config.moe_layer_freq.every = 2;
    cell.config.moe_token_dispatcher_type = GetParam().dispatcher;
    cell.config.moe_aux_loss_coeff = 0.01F;
    cell.config.moe_shared_expert_intermediate_size = 8;
    cell.config.moe_ffn_hidden_size = 8;
    if (GetParam().drops) {
      cell.config.moe_expert_capacity_factor = 1.0F;
      cell.config.moe_pad_expert_input_to_capacity = true;
    }
    cell.shape.bucket_size = 200;
    return cell;
  }
};
INSTANTIATE_TEST_SUITE_P(
    Spreads, ExpertParallel,
    ::testing::Values(Spread{"dropless", 2, 2, false, MoeTokenDispatcherType::alltoall},
                      Spread{"drop_and_pad", 2, 2, true, MoeTokenDispatcherType::alltoall},
                      Spread{"gathered", 2, 2, false, MoeTokenDispatcherType::allgather},
                      Spread{"gathered_drop_and_pad", 2, 2, true,
                             MoeTokenDispatcherType::allgather},
                      Spread{"replicated", 4, 2, false, MoeTokenDispatcherType::alltoall},
                      Spread{"four_ranks", 4, 4, true, MoeTokenDispatcherType::alltoall}),
    [](const auto& spread) { return std::string(spread.param.name); });

std::vector<double> doubles_of(const std::vector<std::byte>& bytes) {
  std::vector<double> values(bytes.size() / sizeof(double));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

TEST_P(ExpertParallel, GivesTheLossesAndGradientsOfRanksThatHoldAllExperts) {
  const matrix::Cell spread = cell();
  matrix::Cell whole = spread;
  whole.config.expert_model_parallel_size = 1;
  const auto expected = testing::run_ranks(whole, eager);
  const auto actual = testing::run_ranks(spread, eager);
  std::size_t expert_gradients = 0;
  for (std::size_t rank = 0; rank < actual.size(); ++rank) {
    ASSERT_EQ(actual[rank].record.error, "");
    const auto part = rank % static_cast<std::size_t>(GetParam().ranks);
    for (const auto& [key, bytes] : actual[rank].bytes) {
      const bool gradient = std::get<0>(key) == ObservedQuantity::main_grad;
      const bool loss = std::get<0>(key) == ObservedQuantity::loss;
      if ((!gradient && !loss) || std::get<1>(key) != 0) continue;
      const std::vector<double> own = doubles_of(bytes);
      const std::vector<double> all = doubles_of(expected[rank].bytes.at(key));
      const bool shared_out = own.size() != all.size();
      if (shared_out) ++expert_gradients;
      ASSERT_EQ(all.size(),
                shared_out ? own.size() * static_cast<std::size_t>(GetParam().ranks) : own.size())
          << testing::key_text(key);
      for (std::size_t i = 0; i < own.size(); ++i) {
        const double wanted = all[shared_out ? part * own.size() + i : i];
        ASSERT_NEAR(own[i], wanted, 1e-12 * std::max(1.0, std::abs(wanted)))
            << testing::key_text(key) << " element " << i << " of rank " << rank;
      }
    }
  }
  EXPECT_EQ(expert_gradients, 2 * actual.size());
}

TEST_P(ExpertParallel, TrainsFromGraphsAsItDoesEagerly) {
  const CudaGraphScope scope = GetParam().drops ? CudaGraphScope{CudaGraphModule::moe}
                                                : CudaGraphScope{CudaGraphModule::moe_router,
                                                                 CudaGraphModule::moe_preprocess};
  const matrix::Cell captured = cell(CudaGraphImpl::transformer_engine, scope);
  const auto expected = testing::run_ranks(captured, instrumented_eager);
  const auto actual = testing::run_ranks(captured, instrumented_graph);
  for (std::size_t rank = 0; rank < actual.size(); ++rank) {
    ASSERT_EQ(actual[rank].record.error, "");
    const auto found = testing::differences(expected[rank].bytes, actual[rank].bytes);
    EXPECT_TRUE(found.empty()) << found.size() << " differences, first " << found.front();
    bool communicates = false;
    for (const GraphRecord& graph : actual[rank].record.graphs) {
      for (const GraphNode& node : graph.nodes) {
        communicates = communicates || node.kind == NodeKind::communication;
      }
    }
    EXPECT_EQ(communicates, GetParam().drops);
  }
}

}  // namespace
}  // namespace cgconform::workloads

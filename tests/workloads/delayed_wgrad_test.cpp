#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "tests/workloads/pipeline_legs.hpp"
#include "workloads/training/eager_problem.hpp"

namespace cgconform::workloads::testing {
namespace {

using matrix::CudaGraphImpl;
using matrix::CudaGraphModule;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr LegRequest eager_leg{};
constexpr LegRequest graph_leg{.kind = LegKind::graph, .replay_seed = 5};

matrix::Cell delayed_cell(CudaGraphImpl impl) {
  matrix::Cell cell = small_cell(impl);
  cell.config.seq_length = 4;
  cell.config.delay_wgrad_compute = true;
  return cell;
}

matrix::Cell fused(matrix::Cell cell) {
  cell.config.delay_wgrad_compute = false;
  return cell;
}

matrix::Cell with_experts(matrix::Cell cell) {
  cell.config.num_moe_experts = 2;
  cell.config.moe_token_dispatcher_type = matrix::MoeTokenDispatcherType::alltoall;
  cell.config.moe_shared_expert_intermediate_size = 8;
  cell.config.moe_ffn_hidden_size = 8;
  cell.config.moe_expert_capacity_factor = 1.0F;
  cell.config.moe_pad_expert_input_to_capacity = true;
  return cell;
}

/// Cells that differ in what the linear layers of a layer are.
std::vector<matrix::Cell> models() {
  const matrix::Cell plain = delayed_cell(CudaGraphImpl::none);
  std::vector<matrix::Cell> cells{plain, with_experts(plain)};
  matrix::Cell& grouped = cells.emplace_back(plain);
  grouped.config.num_query_groups = 1;
  grouped.config.add_bias_linear = false;
  matrix::Cell& latent = cells.emplace_back(plain);
  latent.config.multi_latent_attention = true;
  matrix::Cell& hybrid = cells.emplace_back(plain);
  hybrid.config.is_hybrid_model = true;
  hybrid.config.hybrid_layer_pattern = *matrix::HybridPattern::parse("M*");
  matrix::Cell& quantised = cells.emplace_back(plain);
  quantised.config.fp8 = matrix::Fp8Format::hybrid;
  matrix::Cell& recomputed = cells.emplace_back(with_experts(plain));
  recomputed.config.recompute_granularity = matrix::RecomputeGranularity::selective;
  recomputed.config.recompute_modules =
      matrix::RecomputeModules{matrix::RecomputeModule::layernorm, matrix::RecomputeModule::moe,
                               matrix::RecomputeModule::core_attn};
  matrix::Cell& recomputed_layers = cells.emplace_back(plain);
  recomputed_layers.config.recompute_granularity = matrix::RecomputeGranularity::full;
  recomputed_layers.config.recompute_method = matrix::RecomputeMethod::uniform;
  recomputed_layers.config.recompute_num_layers = 2;
  return cells;
}

matrix::Cell quantised(matrix::Cell cell) {
  cell.config.fp8 = matrix::Fp8Format::hybrid;
  return cell;
}

std::vector<std::string> wgrads_of_step(const LegRecord& record, std::int32_t step) {
  std::vector<std::string> texts;
  for (const ExecutionRecord& execution : record.executions) {
    if (execution.step != step || execution.microbatch != 0 || execution.forward) continue;
    texts.push_back((execution.wgrad ? "W" : "B") + std::to_string(execution.layer) +
                    execution.scope + (execution.replayed ? "r" : ""));
  }
  return texts;
}

class DelayedWgradLegs : public OneRankLegs {};

TEST_F(DelayedWgradLegs, GiveTheGradientsOfTheFusedBackwardInEveryModel) {
  for (const matrix::Cell& cell : models()) {
    const LegRecord record = run(cell, eager);
    ASSERT_EQ(record.error, "");
    EXPECT_THAT(
        differences(bytes_of(run(fused(cell), eager), device()), bytes_of(record, device())),
        IsEmpty());
    EXPECT_THAT(wgrads_of_step(record, 0), ::testing::ElementsAre("B1", "W1", "B0", "W0"));
  }
}

TEST_F(DelayedWgradLegs, AddThemFromThirdGraphsOfCallables) {
  for (const matrix::CudaGraphScope& scope :
       {matrix::CudaGraphScope{}, {CudaGraphModule::attn}, {CudaGraphModule::mlp}}) {
    matrix::Cell cell = delayed_cell(CudaGraphImpl::transformer_engine);
    cell.config.cuda_graph_scope = scope;
    const LegRecord record = run(cell, instrumented_graph);
    ASSERT_EQ(record.error, "");
    EXPECT_THAT(differences(bytes_of(run(fused(cell), instrumented_eager), device()),
                            bytes_of(record, device())),
                IsEmpty());
    expect_no_findings(record);
    EXPECT_EQ(record.graphs.size(), 6U) << "two layers, three graphs each";
    std::map<std::string, std::uint64_t> launches;
    for (const GraphRecord& one : record.graphs) {
      launches[std::string(pass_name(one.forward, one.wgrad))] += one.launches;
    }
    EXPECT_EQ(launches["weight gradients"], launches["backward"]);
    EXPECT_GT(launches["weight gradients"], 0U);
  }
}

TEST_F(DelayedWgradLegs, KeepTheOrderOfPiecesInsideOfALayer) {
  matrix::Cell cell = delayed_cell(CudaGraphImpl::transformer_engine);
  cell.config.cuda_graph_scope = {CudaGraphModule::mlp};
  EXPECT_THAT(wgrads_of_step(run(cell, graph), 2),
              ::testing::ElementsAre("B1mlpr", "B1attn", "W1mlpr", "W1attn", "B0mlpr", "B0attn",
                                     "W0mlpr", "W0attn"));
}

TEST_F(DelayedWgradLegs, HaveNoGraphWhereARouterAloneIsCaptured) {
  matrix::Cell cell = with_experts(delayed_cell(CudaGraphImpl::transformer_engine));
  cell.config.cuda_graph_scope = {CudaGraphModule::moe_router};
  const auto wgrad_graphs = [&] {
    const LegRecord record = run(cell, graph);
    EXPECT_EQ(record.error, "");
    return std::count_if(record.graphs.begin(), record.graphs.end(),
                         [](const GraphRecord& one) { return one.wgrad; });
  };
  EXPECT_EQ(wgrad_graphs(), 2) << "of shared experts, which a router's graph holds";
  cell.config.moe_shared_expert_intermediate_size.reset();
  EXPECT_EQ(wgrad_graphs(), 0);
}

TEST_F(DelayedWgradLegs, AreCapturedWithTheIteration) {
  const matrix::Cell cell = delayed_cell(CudaGraphImpl::full_iteration);
  const LegRecord record = run(cell, instrumented_graph);
  ASSERT_EQ(record.error, "");
  EXPECT_THAT(differences(bytes_of(run(fused(cell), instrumented_eager), device()),
                          bytes_of(record, device()), false),
              IsEmpty());
  expect_no_findings(record);
  const std::vector<GraphNode>& nodes = record.graphs.at(0).nodes;
  EXPECT_TRUE(std::any_of(nodes.begin(), nodes.end(), [](const GraphNode& node) {
    return node.label.find("weight backward") != std::string::npos;
  }));
}

TEST_F(DelayedWgradLegs, ReadWhatQuantisedLayersWithBiasesHaveLeft) {
  for (const CudaGraphImpl impl :
       {CudaGraphImpl::none, CudaGraphImpl::transformer_engine, CudaGraphImpl::full_iteration}) {
    const matrix::Cell cell = quantised(delayed_cell(impl));
    ASSERT_TRUE(cell.config.add_bias_linear);
    const LegRecord record =
        run(cell, impl == CudaGraphImpl::none ? instrumented_eager : instrumented_graph);
    ASSERT_EQ(record.error, "");
    EXPECT_THAT(differences(bytes_of(run(fused(cell), instrumented_eager), device()),
                            bytes_of(record, device()), false),
                IsEmpty());
    expect_no_findings(record);
  }
}

TEST_F(DelayedWgradLegs, ThatAreLeftOutOrAddedTwiceGiveOtherGradients) {
  for (const CudaGraphImpl impl :
       {CudaGraphImpl::transformer_engine, CudaGraphImpl::full_iteration}) {
    const matrix::Cell cell = delayed_cell(impl);
    const auto expected = bytes_of(run(fused(cell), eager), device());
    for (const Fault fault : {Fault::f14e_wgrads_left_out, Fault::f14f_wgrads_twice}) {
      const LegRecord record = run(cell, graph, fault);
      ASSERT_EQ(record.error, "");
      const auto seen = differences(expected, bytes_of(record, device()), false);
      EXPECT_THAT(seen, Contains(HasSubstr("linear_fc1.weight step 1")));
      EXPECT_THAT(seen, Contains(HasSubstr("linear_qkv.weight step 1")));
    }
  }
}

TEST_F(DelayedWgradLegs, ThatComeAfterTheNextBackwardReadWhatItHasOverwritten) {
  const matrix::Cell cell = delayed_cell(CudaGraphImpl::transformer_engine);
  const LegRecord record = run(cell, instrumented_graph, Fault::f06d_wgrads_after_next_backward);
  ASSERT_EQ(record.error, "");
  EXPECT_GT(changed_slots(record, SlotKind::saved_activation), 0U);
}

TEST(DelayedWgradsOfRanks, FollowTheGradientThatAStageSendsAndComeBeforeItsReduction) {
  for (const CudaGraphImpl impl :
       {CudaGraphImpl::transformer_engine, CudaGraphImpl::full_iteration}) {
    matrix::Cell cell = delayed_cell(impl);
    cell.config.num_layers = 4;
    cell.config.pipeline_model_parallel_size = 2;
    cell.config.virtual_pipeline_model_parallel_size = 2;
    cell.config.num_microbatches = 2;
    cell.config.data_parallel_size = 2;
    cell.shape.bucket_size = 64;
    const auto expected = run_ranks(fused(cell), eager_leg);
    const auto actual = run_ranks(cell, graph_leg);
    for (std::size_t rank = 0; rank < actual.size(); ++rank) {
      ASSERT_EQ(actual[rank].record.error, "");
      EXPECT_THAT(differences(expected[rank].bytes, actual[rank].bytes, false), IsEmpty());
    }
  }
}

TEST(DelayedWgrads, AreNoPartOfTheEagerProblemThatGraphsAreHeldAgainst) {
  const matrix::Cell cell = delayed_cell(CudaGraphImpl::transformer_engine);
  EXPECT_FALSE(eager_problem(cell).config.delay_wgrad_compute);
  EXPECT_TRUE(eager_problem(delayed_cell(CudaGraphImpl::none)).config.delay_wgrad_compute);
}

}  // namespace
}  // namespace cgconform::workloads::testing

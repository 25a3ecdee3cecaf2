#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "tests/workloads/pipeline_legs.hpp"

namespace cgconform::workloads::testing {
namespace {

using matrix::CaptureForm;
using matrix::CudaGraphImpl;
using ::testing::IsEmpty;

constexpr float small_bound = 0.05F;

matrix::Cell clipped_cell(CudaGraphImpl impl = CudaGraphImpl::none, float bound = small_bound) {
  matrix::Cell cell = small_cell(impl);
  cell.config.params_dtype = matrix::ParamsDtype::fp64;
  cell.shape.clip_grad = bound;
  return cell;
}

std::vector<double> doubles(const std::vector<std::byte>& bytes) {
  std::vector<double> values(bytes.size() / sizeof(double));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

/// A state scalar of the optimizer after every step.
std::vector<double> scalars(const ObservedBytes& all, const std::string& name) {
  std::vector<double> values;
  for (const auto& [key, bytes] : all) {
    if (std::get<5>(key) == name) values.push_back(doubles(bytes).front());
  }
  return values;
}

/// The norm over the tensors of a step whose names begin so.
double norm_of(const ObservedBytes& all, std::int32_t step, const std::string& prefix) {
  double sum = 0.0;
  for (const auto& [key, bytes] : all) {
    if (std::get<1>(key) != step || !std::get<5>(key).starts_with(prefix)) continue;
    for (const double value : doubles(bytes)) sum += value * value;
  }
  return std::sqrt(sum);
}

class Clipping : public OneRankLegs {};

TEST_F(Clipping, BringsTheNormOverAllGradientsDownToTheBound) {
  const auto all = bytes_of(run(clipped_cell(), eager), device());
  const std::vector<double> norms = scalars(all, "grad_norm");
  const std::vector<double> factors = scalars(all, "clip_factor");
  ASSERT_EQ(norms.size(), 4U);
  const auto bound = static_cast<double>(small_bound);
  for (std::size_t i = 0; i < norms.size(); ++i) {
    const auto step = static_cast<std::int32_t>(i);
    EXPECT_NEAR(norms[i], norm_of(all, step, "main_grad:"), 1e-12 * norms[i]);
    EXPECT_GT(norms[i], bound);
    EXPECT_NEAR(factors[i], bound / (norms[i] + 1e-6), 1e-12);
    EXPECT_NEAR(norm_of(all, step, "clipped_grad:"), factors[i] * norms[i], 1e-12);
  }
}

TEST_F(Clipping, LeavesGradientsBelowTheBoundAsTheyAre) {
  const auto all = bytes_of(run(clipped_cell(CudaGraphImpl::none, 1e6F), eager), device());
  for (const double factor : scalars(all, "clip_factor")) EXPECT_EQ(factor, 1.0);
  auto plain = clipped_cell();
  plain.shape.clip_grad = 0.0F;
  for (const auto& [key, bytes] : bytes_of(run(plain, eager), device())) {
    EXPECT_EQ(all.at(key), bytes) << key_text(key);
  }
}

TEST_F(Clipping, IsTheSameInAndBesideGraphs) {
  for (const CudaGraphImpl impl :
       {CudaGraphImpl::local, CudaGraphImpl::transformer_engine, CudaGraphImpl::full_iteration}) {
    for (const bool optimizer_graph : {false, true}) {
      matrix::Cell cell = clipped_cell(impl);
      cell.config.params_dtype = matrix::ParamsDtype::fp16;
      cell.config.optimizer_cuda_graph = optimizer_graph;
      const LegRecord record = run(cell, graph);
      ASSERT_EQ(record.error, "");
      EXPECT_THAT(differences(bytes_of(run(cell, eager), device()), bytes_of(record, device()),
                              impl != CudaGraphImpl::full_iteration),
                  IsEmpty())
          << static_cast<int>(impl) << " optimizer graph " << optimizer_graph;
    }
  }
}

TEST_F(Clipping, LiesInTheGraphOfAWholeStep) {
  matrix::Cell cell = clipped_cell(CudaGraphImpl::full_iteration);
  cell.shape.capture_form = CaptureForm::whole_step;
  const LegRecord record = run(cell, graph);
  EXPECT_THAT(differences(bytes_of(run(cell, eager), device()), bytes_of(record, device()), false),
              IsEmpty());
  ASSERT_FALSE(record.graphs.empty());
  const auto& nodes = record.graphs.front().nodes;
  EXPECT_TRUE(std::any_of(nodes.begin(), nodes.end(),
                          [](const GraphNode& node) { return node.op_name == "clip_factor"; }));
}

TEST_F(Clipping, ByTheFactorOfCaptureTimeIsSeen) {
  matrix::Cell cell = clipped_cell(CudaGraphImpl::local);
  cell.config.optimizer_cuda_graph = true;
  const auto expected = bytes_of(run(cell, eager), device());
  const auto actual = bytes_of(run(cell, graph, Fault::f11g_clip_factor_by_value), device());
  EXPECT_THAT(differences(expected, actual),
              ::testing::Contains(::testing::HasSubstr("clipped_grad:")));
}

struct Layout {
  std::int32_t parts = 1;
  std::int32_t replicas = 1;
  std::int32_t stages = 1;
  std::int32_t expert_ranks = 1;
};

/// Every rank has the norms that one rank has on the whole batch.
void expect_norms_of_one_rank(const Layout& layout) {
  matrix::Cell cell = clipped_cell();
  cell.config.num_microbatches = 2;
  cell.config.seq_length = 4;
  cell.config.attention_dropout = 0.0F;
  cell.config.hidden_dropout = 0.0F;
  cell.shape.steps = 2;
  if (layout.expert_ranks > 1) {
    cell.config.num_moe_experts = 4;
    cell.config.moe_ffn_hidden_size = 8;
    cell.config.moe_token_dispatcher_type = matrix::MoeTokenDispatcherType::alltoall;
  }
  matrix::Cell whole = cell;
  whole.config.num_microbatches *= layout.replicas;
  cell.config.tensor_model_parallel_size = layout.parts;
  cell.config.data_parallel_size = layout.replicas;
  cell.config.pipeline_model_parallel_size = layout.stages;
  cell.config.expert_model_parallel_size = layout.expert_ranks;
  const std::vector<RankLeg> one = run_ranks(whole, {});
  ASSERT_EQ(one.front().record.error, "");
  const std::vector<double> expected = scalars(one.front().bytes, "grad_norm");
  ASSERT_EQ(expected.size(), 2U);
  for (const RankLeg& rank : run_ranks(cell, {})) {
    ASSERT_EQ(rank.record.error, "");
    const std::vector<double> norms = scalars(rank.bytes, "grad_norm");
    ASSERT_EQ(norms.size(), expected.size());
    for (std::size_t i = 0; i < norms.size(); ++i) {
      EXPECT_NEAR(norms[i], expected[i], 1e-9 * expected[i]) << "step " << i;
    }
  }
}

TEST(ClippingOverRanks, CountsEveryParameterOnceWhereverItLies) {
  expect_norms_of_one_rank({.parts = 2});
  expect_norms_of_one_rank({.replicas = 2});
  expect_norms_of_one_rank({.stages = 2});
  expect_norms_of_one_rank({.parts = 2, .replicas = 2, .stages = 2});
}

TEST(ClippingOverRanks, CountsTheExpertsOfEveryRankOnce) {
  expect_norms_of_one_rank({.replicas = 2, .expert_ranks = 2});
  expect_norms_of_one_rank({.replicas = 4, .expert_ranks = 2});
}

TEST(ClippingOverRanks, IsTheSameFromGraphsThatHoldTheSumOverRanks) {
  matrix::Cell cell = clipped_cell(CudaGraphImpl::full_iteration);
  cell.config.data_parallel_size = 2;
  cell.shape.capture_form = CaptureForm::whole_step;
  const auto eager = run_ranks(cell, {});
  const auto graph = run_ranks(cell, {.kind = LegKind::graph, .replay_seed = 5});
  for (std::size_t rank = 0; rank < eager.size(); ++rank) {
    ASSERT_EQ(graph[rank].record.error, "");
    EXPECT_THAT(differences(eager[rank].bytes, graph[rank].bytes, false), IsEmpty());
  }
}

}  // namespace
}  // namespace cgconform::workloads::testing

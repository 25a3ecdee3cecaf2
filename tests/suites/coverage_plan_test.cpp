#include "suites/coverage_plan.hpp"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cgconform::suites {
namespace {

using testing::ElementsAre;

matrix::Cell local_cell() {
  matrix::Cell cell;
  cell.config.cuda_graph_impl = matrix::CudaGraphImpl::local;
  cell.config.num_layers = 2;
  cell.config.num_microbatches = 2;
  cell.shape.steps = 3;
  return cell;
}

std::vector<std::string> graph_texts(const CoveragePlan& plan) {
  std::vector<std::string> texts;
  for (const PlannedGraph& graph : plan.graphs) {
    texts.push_back((graph.forward ? "F" : "B") + std::to_string(graph.layer) + "/" +
                    std::to_string(graph.microbatch));
  }
  return texts;
}

std::vector<std::string> executions_of(const CoveragePlan& plan, std::int32_t step) {
  std::vector<std::string> texts;
  for (const PlannedExecution& execution : plan.executions) {
    if (execution.step != step) continue;
    texts.push_back(std::string(execution.validation ? "V" : (execution.forward ? "F" : "B")) +
                    std::to_string(execution.layer) + "/" + std::to_string(execution.microbatch) +
                    (execution.replayed ? "r" : ""));
  }
  return texts;
}

TEST(CoveragePlan, GivesOnePairOfGraphsALayerWithOneStage) {
  const CoveragePlan plan = plan_coverage(local_cell(), 0);
  EXPECT_THAT(graph_texts(plan), ElementsAre("F0/0", "F1/0", "B1/0", "B0/0"));
  for (const PlannedGraph& graph : plan.graphs) {
    EXPECT_EQ(graph.capture_step, 0);
    EXPECT_EQ(graph.launches, 4U) << "two micro-batches in each of two steps";
  }
}

TEST(CoveragePlan, GivesOnePairALayerAndMicrobatchWithMoreStagesInScheduleOrder) {
  matrix::Cell cell = local_cell();
  cell.config.pipeline_model_parallel_size = 2;
  EXPECT_THAT(graph_texts(plan_coverage(cell, 0)), ElementsAre("F0/0", "F0/1", "B0/0", "B0/1"));
  EXPECT_THAT(graph_texts(plan_coverage(cell, 1)), ElementsAre("F1/0", "B1/0", "F1/1", "B1/1"));
}

TEST(CoveragePlan, RunsTheFirstStepEagerlyAndReplaysTheRest) {
  const CoveragePlan plan = plan_coverage(local_cell(), 0);
  EXPECT_THAT(executions_of(plan, 0),
              ElementsAre("F0/0", "F1/0", "B1/0", "B0/0", "F0/1", "F1/1", "B1/1", "B0/1"));
  EXPECT_THAT(executions_of(plan, 2),
              ElementsAre("F0/0r", "F1/0r", "B1/0r", "B0/0r", "F0/1r", "F1/1r", "B1/1r", "B0/1r"));
}

TEST(CoveragePlan, ValidatesEagerlyBetweenReplaysOfLayers) {
  matrix::Cell cell = local_cell();
  cell.config.num_layers = 1;
  cell.config.num_microbatches = 1;
  cell.shape.eval_interval = 2;
  const CoveragePlan plan = plan_coverage(cell, 0);
  EXPECT_THAT(executions_of(plan, 1), ElementsAre("F0/0r", "B0/0r", "V0/0"));
  EXPECT_THAT(executions_of(plan, 2), ElementsAre("F0/0r", "B0/0r"));
}

TEST(CoveragePlan, RunsPartialMicrobatchesEagerlyBesideReplays) {
  matrix::Cell cell = local_cell();
  cell.config.num_layers = 1;
  cell.shape.last_batch = matrix::LastBatch::eager;
  EXPECT_EQ(planned_steps(cell), 6) << "a partial micro-batch and a full one follow the capture";
  const CoveragePlan plan = plan_coverage(cell, 0);
  EXPECT_THAT(executions_of(plan, 2), ElementsAre("F0/0r", "B0/0r", "F0/1", "B0/1"));
  EXPECT_THAT(executions_of(plan, 3), ElementsAre("F0/0r", "B0/0r", "F0/1r", "B0/1r"));
}

TEST(CoveragePlan, CapturesNoIterationWithAPartialMicrobatch) {
  matrix::Cell cell = local_cell();
  cell.config.cuda_graph_scope = {matrix::CudaGraphModule::full_iteration};
  cell.config.cuda_graph_warmup_steps = 2;
  cell.shape.last_batch = matrix::LastBatch::eager;
  const CoveragePlan plan = plan_coverage(cell, 0);
  EXPECT_EQ(plan.graphs.at(0).capture_step, 3);
  EXPECT_THAT(executions_of(plan, 5), ElementsAre("F-1/-1"));
  cell.shape.last_batch = matrix::LastBatch::padded;
  EXPECT_EQ(plan_coverage(cell, 0).graphs.at(0).capture_step, 2);
}

TEST(CoveragePlan, CapturesNothingForAScopeThatSelectsNoDenseLayer) {
  matrix::Cell cell = local_cell();
  cell.config.cuda_graph_scope = {matrix::CudaGraphModule::mamba};
  const CoveragePlan plan = plan_coverage(cell, 0);
  EXPECT_TRUE(plan.graphs.empty());
  for (const PlannedExecution& execution : plan.executions) EXPECT_FALSE(execution.replayed);
}

TEST(CoveragePlan, CapturesAWholeIterationInTheCallAfterItsWarmUp) {
  matrix::Cell cell = local_cell();
  cell.config.cuda_graph_scope = {matrix::CudaGraphModule::full_iteration};
  cell.config.cuda_graph_warmup_steps = 2;
  cell.shape.steps = 5;
  const CoveragePlan plan = plan_coverage(cell, 0);
  ASSERT_EQ(plan.graphs.size(), 1U);
  EXPECT_EQ(plan.graphs[0].capture_step, 2);
  EXPECT_EQ(plan.graphs[0].launches, 3U);
  ASSERT_EQ(plan.executions.size(), 5U);
  EXPECT_FALSE(plan.executions[1].replayed);
  EXPECT_TRUE(plan.executions[2].replayed);
}

TEST(CoveragePlan, CountsValidationCallsApartFromTrainingCalls) {
  matrix::Cell cell = local_cell();
  cell.config.cuda_graph_scope = {matrix::CudaGraphModule::full_iteration};
  cell.config.cuda_graph_warmup_steps = 1;
  cell.shape.steps = 6;
  cell.shape.eval_interval = 2;
  const CoveragePlan plan = plan_coverage(cell, 0);
  ASSERT_EQ(plan.graphs.size(), 2U);
  EXPECT_EQ(plan.graphs[0].capture_step, 1);
  EXPECT_TRUE(plan.graphs[1].validation);
  EXPECT_EQ(plan.graphs[1].capture_step, 3) << "the second validation is the one captured";
  EXPECT_EQ(plan.graphs[1].launches, 2U);
}

TEST(CoveragePlan, AddsStepsUntilEveryGraphIsReplayedAgain) {
  matrix::Cell cell = local_cell();
  cell.shape.steps = 1;
  EXPECT_EQ(planned_steps(cell), 3);
  cell.config.cuda_graph_scope = {matrix::CudaGraphModule::full_iteration};
  cell.config.cuda_graph_warmup_steps = 3;
  EXPECT_EQ(planned_steps(cell), 6);
  cell.shape.eval_interval = 2;
  EXPECT_EQ(planned_steps(cell), 10);
}

matrix::Cell callable_cell(std::int32_t warmup) {
  matrix::Cell cell = local_cell();
  cell.config.cuda_graph_impl = matrix::CudaGraphImpl::transformer_engine;
  cell.config.cuda_graph_warmup_steps = warmup;
  return cell;
}

TEST(CoveragePlan, CapturesCallablesOfOneMicrobatchWithOneStageAfterTheWarmup) {
  const CoveragePlan plan = plan_coverage(callable_cell(2), 0);
  EXPECT_THAT(graph_texts(plan), ElementsAre("F0/0", "F1/0", "B1/0", "B0/0"));
  EXPECT_EQ(planned_steps(callable_cell(2)), 5);
  for (const PlannedGraph& graph : plan.graphs) {
    EXPECT_EQ(graph.capture_step, 2);
    EXPECT_EQ(graph.launches, 6U) << "two micro-batches in each of three steps";
  }
  EXPECT_THAT(executions_of(plan, 1),
              ElementsAre("F0/0", "F1/0", "B1/0", "B0/0", "F0/1", "F1/1", "B1/1", "B0/1"));
  EXPECT_THAT(executions_of(plan, 2),
              ElementsAre("F0/0r", "F1/0r", "B1/0r", "B0/0r", "F0/1r", "F1/1r", "B1/1r", "B0/1r"));
}

TEST(CoveragePlan, CapturesCallablesOfEveryMicrobatchInScheduleOrderWithMoreStages) {
  matrix::Cell cell = callable_cell(0);
  cell.config.pipeline_model_parallel_size = 2;
  EXPECT_THAT(graph_texts(plan_coverage(cell, 0)), ElementsAre("F0/0", "F0/1", "B0/0", "B0/1"));
  EXPECT_THAT(graph_texts(plan_coverage(cell, 1)), ElementsAre("F1/0", "B1/0", "F1/1", "B1/1"));
  EXPECT_THAT(executions_of(plan_coverage(cell, 0), 0),
              ElementsAre("F0/0r", "F0/1r", "B0/0r", "B0/1r"));
}

TEST(CoveragePlan, GivesDelayedWeightGradientsAGraphBehindEveryBackward) {
  matrix::Cell cell = callable_cell(1);
  cell.config.num_layers = 1;
  cell.config.num_microbatches = 1;
  cell.config.delay_wgrad_compute = true;
  cell.config.cuda_graph_scope = {matrix::CudaGraphModule::attn};
  const CoveragePlan plan = plan_coverage(cell, 0);
  ASSERT_EQ(plan.graphs.size(), 3U);
  EXPECT_TRUE(plan.graphs[2].wgrad);
  EXPECT_FALSE(plan.graphs[2].forward);
  EXPECT_EQ(plan.graphs[2].launches, plan.graphs[1].launches);
  std::vector<std::string> texts;
  for (const PlannedExecution& execution : plan.executions) {
    if (execution.forward) continue;
    texts.push_back(execution_text(execution) + (execution.replayed ? " replayed" : ""));
  }
  texts.resize(6);
  EXPECT_THAT(texts, ElementsAre("step 0 micro-batch 0 layer 0 backward",
                                 "step 0 micro-batch 0 layer 0 weight gradients",
                                 "step 1 micro-batch 0 layer 0 mlp backward",
                                 "step 1 micro-batch 0 layer 0 attn backward replayed",
                                 "step 1 micro-batch 0 layer 0 mlp weight gradients",
                                 "step 1 micro-batch 0 layer 0 attn weight gradients replayed"));
}

TEST(CoveragePlan, GivesRoutersThirdGraphsOnlyForTheirSharedExperts) {
  matrix::Cell cell = callable_cell(1);
  cell.config.num_moe_experts = 2;
  cell.config.delay_wgrad_compute = true;
  cell.config.cuda_graph_scope = {matrix::CudaGraphModule::moe_router};
  EXPECT_EQ(plan_coverage(cell, 0).graphs.size(), 4U);
  cell.config.moe_shared_expert_intermediate_size = 8;
  EXPECT_EQ(plan_coverage(cell, 0).graphs.size(), 6U);
}

TEST(CoveragePlan, RunsTheModulesThatCallablesLeaveOutEagerly) {
  matrix::Cell cell = callable_cell(0);
  cell.config.num_layers = 1;
  cell.config.num_microbatches = 1;
  cell.config.cuda_graph_scope = {matrix::CudaGraphModule::mlp};
  std::vector<std::string> texts;
  for (const PlannedExecution& execution : plan_coverage(cell, 0).executions) {
    if (execution.step != 0) continue;
    texts.push_back(execution_text(execution) + (execution.replayed ? " replayed" : ""));
  }
  EXPECT_THAT(texts, ElementsAre("step 0 micro-batch 0 layer 0 attn forward",
                                 "step 0 micro-batch 0 layer 0 mlp forward replayed",
                                 "step 0 micro-batch 0 layer 0 mlp backward replayed",
                                 "step 0 micro-batch 0 layer 0 attn backward"));
}

TEST(CoveragePlan, NeverCapturesCallablesWithANegativeWarmup) {
  const CoveragePlan plan = plan_coverage(callable_cell(-1), 0);
  EXPECT_TRUE(plan.graphs.empty());
  EXPECT_FALSE(plan.executions.empty());
}

matrix::Cell hybrid_cell(matrix::CudaGraphImpl impl, matrix::CudaGraphScope scope) {
  matrix::Cell cell = local_cell();
  cell.config.cuda_graph_impl = impl;
  cell.config.cuda_graph_warmup_steps = 1;
  cell.config.is_hybrid_model = true;
  cell.config.num_layers = 4;
  cell.config.num_microbatches = 1;
  cell.config.cuda_graph_scope = scope;
  return cell;
}

TEST(CoveragePlan, TakesTheLayersOfAHybridModelThatAScopeNames) {
  using matrix::CudaGraphModule;
  for (const auto impl :
       {matrix::CudaGraphImpl::local, matrix::CudaGraphImpl::transformer_engine}) {
    EXPECT_THAT(graph_texts(plan_coverage(hybrid_cell(impl, {CudaGraphModule::mamba}), 0)),
                ElementsAre("F0/0", "F2/0", "B2/0", "B0/0"));
    EXPECT_THAT(graph_texts(plan_coverage(
                    hybrid_cell(impl, {CudaGraphModule::attn, CudaGraphModule::mlp}), 0)),
                ElementsAre("F1/0", "F3/0", "B3/0", "B1/0"));
  }
}

TEST(CoveragePlan, TellsRanksThatCaptureNothingWhileOthersDo) {
  using matrix::CudaGraphModule;
  matrix::Cell cell = hybrid_cell(matrix::CudaGraphImpl::local, {CudaGraphModule::attn});
  cell.config.pipeline_model_parallel_size = 2;
  EXPECT_FALSE(captures_elsewhere_only(cell, 0)) << "layer 1 is attention";
  EXPECT_TRUE(captures_elsewhere_only(cell, 1));
  cell.config.optimizer_cuda_graph = true;
  EXPECT_FALSE(captures_elsewhere_only(cell, 1)) << "the optimizer's step";
  EXPECT_TRUE(captures_elsewhere_only(cell, 1, GraphsOf::layers));
  EXPECT_FALSE(captures_elsewhere_only(cell, 0, GraphsOf::layers));
  cell.config.optimizer_cuda_graph = false;
  cell.config.cuda_graph_scope = {};
  EXPECT_FALSE(captures_elsewhere_only(cell, 1));
  cell.config.cuda_graph_scope = {CudaGraphModule::moe};
  EXPECT_FALSE(captures_elsewhere_only(cell, 1)) << "no rank captures";
}

TEST(CoveragePlan, PartsAnIterationAtTheReadsOfTheHost) {
  matrix::Cell cell = local_cell();
  cell.config.cuda_graph_scope = {matrix::CudaGraphModule::full_iteration};
  cell.config.cuda_graph_warmup_steps = 1;
  cell.config.optimizer_cuda_graph = true;
  cell.shape.capture_form = matrix::CaptureForm::partitioned;
  const CoveragePlan parted = plan_coverage(cell, 0);
  EXPECT_EQ(parted.graphs.size(), 4U) << "two micro-batches, and the optimizer";
  cell.shape.capture_form = matrix::CaptureForm::whole_step;
  EXPECT_EQ(plan_coverage(cell, 0).graphs.size(), 1U) << "the optimizer is inside";
}

TEST(CoveragePlan, GivesCallablesOfAllLayersOnePairOfGraphs) {
  matrix::Cell cell = local_cell();
  cell.config.cuda_graph_scope = {matrix::CudaGraphModule::full_iteration};
  cell.shape.capture_form = matrix::CaptureForm::callables;
  cell.shape.eval_interval = 2;
  EXPECT_TRUE(captures_callable_pair(cell));
  EXPECT_FALSE(captures_iterations(cell));
  const CoveragePlan plan = plan_coverage(cell, 0);
  ASSERT_EQ(plan.graphs.size(), 2U);
  const auto replays = static_cast<std::uint64_t>(planned_steps(cell)) *
                       static_cast<std::uint64_t>(cell.config.num_microbatches);
  EXPECT_EQ(plan.graphs[0].launches, replays);
  EXPECT_EQ(plan.graphs[1].launches, replays);
  EXPECT_EQ(execution_text(plan.executions.at(1)), "step 0 micro-batch 0 layers backward");
  for (const PlannedExecution& execution : plan.executions) {
    EXPECT_EQ(execution.replayed, !execution.validation) << execution_text(execution);
  }
}

}  // namespace
}  // namespace cgconform::suites

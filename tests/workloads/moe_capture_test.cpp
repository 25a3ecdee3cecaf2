#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/workloads/training_legs.hpp"

namespace cgconform::workloads::testing {
namespace {

using matrix::CudaGraphImpl;
using matrix::CudaGraphModule;
using matrix::CudaGraphScope;

/// A MoE layer, then a dense one.
matrix::Cell moe_cell(CudaGraphImpl impl, CudaGraphScope scope, bool drops) {
  matrix::Cell cell = small_cell(impl);
  cell.config.cuda_graph_scope = scope;
  cell.config.seq_length = 4;
  cell.config.num_moe_experts = 3;
  cell.config.moe_layer_freq.every = 2;
  cell.config.moe_token_dispatcher_type = matrix::MoeTokenDispatcherType::alltoall;
  cell.config.moe_aux_loss_coeff = 0.01F;
  cell.config.moe_shared_expert_intermediate_size = 8;
  cell.config.moe_input_jitter_eps = 0.1F;
  cell.config.moe_router_enable_expert_bias = true;
  cell.config.moe_ffn_hidden_size = 8;
  if (drops) {
    cell.config.moe_expert_capacity_factor = 1.0F;
    cell.config.moe_pad_expert_input_to_capacity = true;
  }
  return cell;
}

struct MoeCapture {
  const char* name;
  CudaGraphImpl impl;
  CudaGraphScope scope;
  bool drops;
  /// Modules of layers that replay.
  std::set<std::string> replayed;
};

std::vector<MoeCapture> captures() {
  using enum CudaGraphModule;
  constexpr auto local = CudaGraphImpl::local;
  constexpr auto callables = CudaGraphImpl::transformer_engine;
  const std::string router_and_places = "moe_router+moe_preprocess";
  return {
      {"full_iteration", local, {full_iteration}, true, {""}},
      {"local_layers", local, {}, true, {""}},
      {"local_moe", local, {moe}, true, {""}},
      {"local_router",
       local,
       {moe_router, moe_preprocess},
       false,
       {router_and_places, "moe_postprocess"}},
      {"callables_of_layers", callables, {}, true, {""}},
      {"callables_of_moe",
       callables,
       {moe},
       true,
       {"moe_router+moe_preprocess+moe_experts+moe_postprocess"}},
      {"callables_of_router", callables, {moe_router}, false, {"moe_router"}},
      {"callables_of_router_and_preprocess",
       callables,
       {moe_router, moe_preprocess},
       false,
       {router_and_places}},
      {"callables_with_attention",
       callables,
       {attn, moe_router, moe_preprocess},
       false,
       {"attn", "attn+moe_router+moe_preprocess"}},
      {"callables_of_mlp_and_router", callables, {mlp, moe_router}, true, {"mlp", "moe_router"}},
  };
}

class MoeLegs : public OneRankLegs, public ::testing::WithParamInterface<MoeCapture> {};
INSTANTIATE_TEST_SUITE_P(Captures, MoeLegs, ::testing::ValuesIn(captures()),
                         [](const auto& capture) { return std::string(capture.param.name); });

TEST_P(MoeLegs, TrainFromGraphsAsTheyDoEagerly) {
  const MoeCapture& capture = GetParam();
  const matrix::Cell cell = moe_cell(capture.impl, capture.scope, capture.drops);
  const LegRecord eager_record = run(cell, instrumented_eager);
  const LegRecord graph_record = run(cell, instrumented_graph);
  ASSERT_EQ(eager_record.error, "");
  ASSERT_EQ(graph_record.error, "");
  const auto found =
      differences(bytes_of(eager_record, device()), bytes_of(graph_record, device()));
  EXPECT_TRUE(found.empty()) << found.size() << " differences, first " << found.front();
  expect_no_findings(graph_record);
  std::set<std::string> replayed;
  for (const ExecutionRecord& execution : graph_record.executions) {
    if (execution.replayed) replayed.insert(execution.scope);
  }
  EXPECT_EQ(replayed, capture.replayed);
}

TEST_P(MoeLegs, RouteAnewInEveryCall) {
  const MoeCapture& capture = GetParam();
  const LegRecord record =
      run(moe_cell(capture.impl, capture.scope, capture.drops), instrumented_graph);
  std::set<std::vector<std::int32_t>> routings;
  std::size_t calls = 0;
  for (const RoutingRecord& routed : record.routing) {
    if (routed.where.tensor != "routing:experts") continue;
    ++calls;
    routings.insert(routed.values);
  }
  EXPECT_GT(calls, 6U);
  EXPECT_GT(routings.size(), calls / 2);
}

TEST_F(OneRankLegs, DroplessExpertsCannotBeCaptured) {
  const LegRecord record =
      run(moe_cell(CudaGraphImpl::local, {CudaGraphModule::full_iteration}, false), graph);
  EXPECT_EQ(record.error_category, ErrorCategory::stream_capture_unsupported) << record.error;
}

TEST_F(OneRankLegs, CapturedCapacityFaultsChangeTheRouting) {
  const matrix::Cell cell = moe_cell(CudaGraphImpl::local, {CudaGraphModule::full_iteration}, true);
  const auto routing_of = [](const LegRecord& record, const std::string& tensor) {
    std::vector<std::vector<std::int32_t>> all;
    for (const RoutingRecord& routed : record.routing) {
      if (routed.where.tensor == tensor) all.push_back(routed.values);
    }
    return all;
  };
  const LegRecord healthy = run(cell, instrumented_graph);
  const LegRecord unflagged = run(cell, instrumented_graph, Fault::f16a_overflow_not_flagged);
  const LegRecord smaller = run(cell, instrumented_graph, Fault::f16b_captured_for_less);
  EXPECT_NE(routing_of(unflagged, "routing:overflow"), routing_of(healthy, "routing:overflow"));
  EXPECT_EQ(routing_of(unflagged, "routing:slots"), routing_of(healthy, "routing:slots"));
  EXPECT_NE(routing_of(smaller, "routing:slots"), routing_of(healthy, "routing:slots"));
}

}  // namespace
}  // namespace cgconform::workloads::testing

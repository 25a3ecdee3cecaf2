#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "tests/workloads/training_legs.hpp"

namespace cgconform::workloads::testing {
namespace {

using matrix::CudaGraphImpl;
using matrix::CudaGraphModule;

class WgradBranches : public OneRankLegs {
 protected:
  static std::int32_t find(const std::vector<GraphNode>& nodes, std::string_view op,
                           std::string_view label_end) {
    const auto found = std::find_if(nodes.begin(), nodes.end(), [&](const GraphNode& node) {
      return node.op_name == op && node.label.ends_with(label_end);
    });
    return found == nodes.end() ? -1 : static_cast<std::int32_t>(found - nodes.begin());
  }

  /// The products of a linear layer's backward: both there, and neither waits for the other.
  static bool run_side_by_side(const GraphRecord& graph, std::string_view linear) {
    const std::int32_t input = find(graph.nodes, "gemm", linear);
    const std::int32_t weight = find(graph.nodes, "gemm_accumulate", linear);
    return input >= 0 && weight >= 0 && !reaches(graph.nodes, input, weight) &&
           !reaches(graph.nodes, weight, input);
  }

  /// Products that add to a weight and that the graph's last node does not wait for.
  static std::size_t wgrads_without_successor(const GraphRecord& graph) {
    std::size_t left = 0;
    for (std::size_t node = 0; node < graph.nodes.size(); ++node) {
      if (graph.nodes[node].op_name != "gemm_accumulate") continue;
      const auto from = static_cast<std::int32_t>(node);
      const auto last = static_cast<std::int32_t>(graph.nodes.size()) - 1;
      left += from == last || reaches(graph.nodes, from, last) ? 0 : 1;
    }
    return left;
  }
};

TEST_F(WgradBranches, RunBesideTheGradientsOfInputsInGraphsOfLayers) {
  for (const CudaGraphImpl impl : {CudaGraphImpl::local, CudaGraphImpl::transformer_engine}) {
    const LegRecord record = run(small_cell(impl), graph);
    ASSERT_EQ(record.error, "");
    std::size_t backwards = 0;
    for (const GraphRecord& captured : record.graphs) {
      if (captured.forward) continue;
      ++backwards;
      for (const std::string_view linear :
           {"mlp.linear_fc1 backward", "mlp.linear_fc2 backward",
            "self_attention.linear_qkv backward", "self_attention.linear_proj backward"}) {
        EXPECT_TRUE(run_side_by_side(captured, linear)) << captured.name << ": " << linear;
      }
    }
    EXPECT_GT(backwards, 0U);
    EXPECT_EQ(record.edge_findings.size(), 0U);
  }
}

TEST_F(WgradBranches, AreJoinedBeforeTheNextLayerInAGraphOfTheIteration) {
  matrix::Cell cell = small_cell(CudaGraphImpl::local);
  cell.config.cuda_graph_scope = {CudaGraphModule::full_iteration};
  const LegRecord record = run(cell, graph);
  ASSERT_EQ(record.error, "");
  ASSERT_FALSE(record.graphs.empty());
  const GraphRecord& iteration = record.graphs.front();
  EXPECT_TRUE(run_side_by_side(iteration, "mlp.linear_fc2 backward"));
  EXPECT_EQ(wgrads_without_successor(iteration), 0U);
  EXPECT_EQ(record.edge_findings.size(), 0U);
}

}  // namespace
}  // namespace cgconform::workloads::testing

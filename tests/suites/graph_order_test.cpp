#include "suites/checks/graph_order.hpp"

#include <vector>

#include <gtest/gtest.h>

#include "matrix/error.hpp"
#include "suites/dot_summary.hpp"

namespace cgconform::suites {
namespace {

using workloads::GraphNode;
using workloads::GraphSize;
using workloads::NodeKind;

GraphNode communication(const char* communicator, std::vector<std::int32_t> dependencies) {
  GraphNode node{.kind = NodeKind::communication, .dependencies = std::move(dependencies)};
  node.communicator = communicator;
  return node;
}

TEST(GraphOrder, FindsTwoCommunicationsThatNoPathJoins) {
  std::vector<GraphNode> nodes{communication("a", {}), communication("b", {0}),
                               communication("a", {1})};
  EXPECT_FALSE(checks::find_unjoined_communications(nodes, "a").has_value());
  EXPECT_EQ(checks::count_communications(nodes, "a"), 2U);
  nodes[2].dependencies.clear();
  EXPECT_EQ(checks::find_unjoined_communications(nodes, "a"), (checks::NodePair{0, 2}));
  EXPECT_FALSE(checks::find_unjoined_communications(nodes, "b").has_value());
}

TEST(GraphOrder, FindsANodeThatIsNotJoined) {
  std::vector<GraphNode> nodes{communication("a", {}), communication("a", {}),
                               communication("a", {0, 1})};
  EXPECT_FALSE(checks::find_node_not_joined(nodes, 2).has_value());
  nodes[2].dependencies = {0};
  EXPECT_EQ(checks::find_node_not_joined(nodes, 2), 1);
}

TEST(DotSize, CountsNodesAndEdgesOfSubgraphsToo) {
  EXPECT_EQ(dot_size("digraph dot {\nsubgraph cluster_1 {\nlabel=\"g\" graph[style=\"dashed\"];\n"
                     "\"n 0\"[style=\"solid\" label=\"0\nMEM \\\"x\\\" -> {\"];\n\"n 1\";\n"
                     "\"n 0\" -> \"n 1\"[headlabel=0];\n\"n 1\" -> n2 -> \"n 3\";\n}\n}\n"),
            (GraphSize{.nodes = 4, .edges = 3}));
  EXPECT_EQ(dot_size("digraph {}"), GraphSize{});
}

TEST(DotSize, RefusesWhatIsNoDot) {
  for (const char* text : {"", "graph", "digraph {", "digraph { \"a }", "digraph { a -> }",
                           "digraph { a [x=1 }", "digraph {} rest", "digraph { -> a }"}) {
    EXPECT_THROW(dot_size(text), InternalError) << text;
  }
}

}  // namespace
}  // namespace cgconform::suites

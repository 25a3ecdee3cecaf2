#include <array>
#include <cstddef>
#include <vector>

#include <gtest/gtest.h>

#include "workloads/capture/edge_audit.hpp"

namespace cgconform::workloads {
namespace {

class EdgeAudit : public ::testing::Test {
 protected:
  /// Bytes [first, first + count) of the memory under audit.
  Operand touch(Access access, std::int64_t first, std::int64_t count) {
    return {"x", access, {memory_.data() + first, DType::uint8, Shape{count}}};
  }
  static GraphNode node(std::vector<std::int32_t> dependencies, std::vector<Operand> operands) {
    return {NodeKind::kernel, "node", "op", std::move(operands), std::move(dependencies)};
  }

 private:
  std::array<std::byte, 64> memory_{};
};

TEST_F(EdgeAudit, AcceptsAWriterThatAPathJoinsToItsReader) {
  const std::vector<GraphNode> nodes{
      node({}, {touch(Access::write, 0, 8)}),
      node({0}, {touch(Access::read, 32, 8)}),
      node({1}, {touch(Access::read, 4, 8)}),
  };
  EXPECT_TRUE(find_unordered_pairs(nodes).empty());
}

TEST_F(EdgeAudit, FindsAReaderThatNoPathJoinsToItsWriter) {
  const std::vector<GraphNode> nodes{
      node({}, {}),
      node({0}, {touch(Access::write, 0, 8)}),
      node({0}, {touch(Access::read, 32, 4), touch(Access::read, 7, 4)}),
  };
  const std::vector<UnorderedPair> pairs = find_unordered_pairs(nodes);
  ASSERT_EQ(pairs.size(), 1U);
  EXPECT_EQ(pairs[0].first, 1);
  EXPECT_EQ(pairs[0].second, 2);
  EXPECT_EQ(pairs[0].second_operand, 1U);
}

TEST_F(EdgeAudit, LeavesReadersAndNeighboursAlone) {
  const std::vector<GraphNode> nodes{
      node({}, {touch(Access::read, 0, 8)}),
      node({}, {touch(Access::read, 0, 8)}),
      node({}, {touch(Access::write, 8, 8)}),
      node({}, {touch(Access::accumulate, 16, 8)}),
  };
  EXPECT_TRUE(find_unordered_pairs(nodes).empty());
}

TEST_F(EdgeAudit, FindsTwoBranchesThatAccumulateIntoTheSameBytes) {
  const std::vector<GraphNode> nodes{
      node({}, {touch(Access::accumulate, 0, 8)}),
      node({}, {touch(Access::accumulate, 0, 8)}),
  };
  EXPECT_EQ(find_unordered_pairs(nodes).size(), 1U);
}

TEST_F(EdgeAudit, FindsTheOneEdgeMissingFromAWideFanOut) {
  constexpr std::int32_t width = 150;
  constexpr std::int32_t victim = 97;
  std::vector<GraphNode> nodes{node({}, {}), node({0}, {touch(Access::write, 0, 8)})};
  for (std::int32_t branch = 0; branch < width; ++branch) {
    const std::int32_t parent = branch == victim ? 0 : 1;
    nodes.push_back(node({parent}, {touch(Access::read, 0, 8)}));
  }
  const std::vector<UnorderedPair> pairs = find_unordered_pairs(nodes);
  ASSERT_EQ(pairs.size(), 1U);
  EXPECT_EQ(pairs[0].second, victim + 2);
}

TEST_F(EdgeAudit, ReachabilityFollowsLongChains) {
  constexpr std::int32_t length = 200;
  std::vector<GraphNode> nodes{node({}, {})};
  for (std::int32_t i = 1; i < length; ++i) nodes.push_back(node({i - 1}, {}));
  const Reachability paths(nodes);
  EXPECT_TRUE(paths.reaches(0, length - 1));
  EXPECT_FALSE(paths.reaches(length - 1, 0));
  EXPECT_FALSE(paths.reaches(5, 5));
}

}  // namespace
}  // namespace cgconform::workloads

#include "workloads/layers/bias_gradients.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string_view>

#include <gtest/gtest.h>

#include "tests/workloads/training_legs.hpp"
#include "workloads/allocator/caching_allocator.hpp"

namespace cgconform::workloads::testing {
namespace {

using matrix::CudaGraphImpl;

class BiasGradientsTest : public OneRankLegs {
 protected:
  Buffer make(const Shape& shape) {
    return Buffer(allocator_, *stream_, default_pool, DType::fp32, shape, "test");
  }

  std::unique_ptr<Stream> stream_ = device().create_stream("test");
  CachingAllocator allocator_{device().segment_source()};
};

TEST_F(BiasGradientsTest, ManyRowsAreNotLeftForTheEnd) {
  const Buffer bias = make({2});
  const Buffer few = make({1024, 2});
  const Buffer many = make({1025, 2});
  BiasGradients gradients;
  EXPECT_TRUE(gradients.leave(bias.view(), few.view()));
  EXPECT_FALSE(gradients.leave(bias.view(), many.view()));
}

TEST_F(BiasGradientsTest, WhatAGradientReadsIsKeptUntilItIsAdded) {
  const Buffer bias = make({2});
  Buffer read = make({3, 2});
  Buffer other = make({3, 2});
  BiasGradients gradients;
  ASSERT_TRUE(gradients.leave(bias.view(), read.view()));
  const auto blocks = [&] { return allocator_.statistics(default_pool).live_blocks; };
  const auto before = blocks();
  gradients.keep_if_read(other);
  gradients.keep_if_read(read);
  EXPECT_TRUE(other.valid());
  EXPECT_FALSE(read.valid());
  EXPECT_EQ(blocks(), before);
  gradients.add_all(*stream_, "layer 0");
  EXPECT_EQ(blocks(), before - 1);
}

TEST_F(BiasGradientsTest, ALayersBackwardAddsAllItsBiasesInOneLaunch) {
  matrix::Cell cell = small_cell(CudaGraphImpl::local);
  const LegRecord record = run(cell, graph);
  ASSERT_EQ(record.error, "");
  std::size_t backwards = 0;
  for (const GraphRecord& captured : record.graphs) {
    if (captured.forward) continue;
    ++backwards;
    const auto nodes_of = [&](std::string_view op) {
      return std::count_if(captured.nodes.begin(), captured.nodes.end(),
                           [&](const GraphNode& node) { return node.op_name == op; });
    };
    EXPECT_EQ(nodes_of("bias_grads"), 1) << captured.name;
    EXPECT_EQ(nodes_of("bias_grad"), 0) << captured.name;
  }
  EXPECT_GT(backwards, 0U);
}

}  // namespace
}  // namespace cgconform::workloads::testing

#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/workloads/test_ops.hpp"

namespace cgconform::workloads::test {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<Graph> capture(Stream& stream, const std::vector<OpCall>& calls) {
  stream.begin_capture(CaptureMode::thread_local_mode);
  for (const OpCall& call : calls) stream.launch(call);
  return stream.end_capture();
}

TEST(GraphUpdate, RunsTheNewParametersFromTheNextLaunchOn) {
  DeviceFixture f;
  Buffer x = f.buffer();
  const auto exec = capture(*f.stream, {set(x.view(), 1.0F)})->instantiate();
  exec->launch(*f.stream);
  const auto next = capture(*f.stream, {set(x.view(), 5.0F)});
  const UpdateOutcome outcome = exec->update(*next);
  EXPECT_TRUE(outcome.updated) << outcome.reason;
  EXPECT_EQ(value(*f.stream, x.view()), 1.0F);
  exec->launch(*f.stream);
  EXPECT_EQ(value(*f.stream, x.view()), 5.0F);
}

TEST(GraphUpdate, IsRefusedAndChangesNothingWhereTheNodesDiffer) {
  DeviceFixture f;
  Buffer x = f.buffer();
  const auto exec = capture(*f.stream, {set(x.view(), 3.0F)})->instantiate();
  const auto longer = capture(*f.stream, {set(x.view(), 5.0F), twice(x.view())});
  const auto other = capture(*f.stream, {twice(x.view())});
  for (const Graph* graph : {longer.get(), other.get()}) {
    const UpdateOutcome outcome = exec->update(*graph);
    EXPECT_FALSE(outcome.updated);
    EXPECT_THAT(outcome.reason, HasSubstr("in place of"));
  }
  exec->launch(*f.stream);
  EXPECT_EQ(value(*f.stream, x.view()), 3.0F);
}

TEST(GraphClone, OutlivesTheGraphItWasMadeOf) {
  DeviceFixture f;
  Buffer x = f.buffer();
  auto graph = capture(*f.stream, {set(x.view(), 3.0F), twice(x.view())});
  const auto copy = graph->clone();
  graph.reset();
  EXPECT_EQ(copy->nodes().size(), 2U);
  copy->instantiate()->launch(*f.stream);
  EXPECT_EQ(value(*f.stream, x.view()), 6.0F);
}

TEST(GraphCensus, CountsNodesByKindAndEdges) {
  DeviceFixture f;
  Buffer x = f.buffer();
  f.stream->begin_capture(CaptureMode::thread_local_mode);
  f.stream->fill(x.view(), 0, "fill");
  f.stream->launch(twice(x.view()));
  f.stream->launch(twice(x.view()));
  const auto graph = f.stream->end_capture();
  const GraphCensus census = graph->census();
  EXPECT_EQ(census.total(), 3U);
  EXPECT_EQ(census.nodes.at("kernel"), 2U);
  EXPECT_EQ(census.nodes.at("fill"), 1U);
  EXPECT_EQ(census.edges, 2U);
}

}  // namespace
}  // namespace cgconform::workloads::test

#include <set>
#include <string>

#include <gtest/gtest.h>

#include "tests/workloads/test_ops.hpp"

namespace cgconform::workloads::test {
namespace {

TEST(ReferenceGraph, CapturesWithoutRunningAndReplays) {
  DeviceFixture f;
  Buffer x = f.buffer();
  f.stream->launch(set(x.view(), 1.0F));
  f.stream->synchronize();
  f.device->reset_counters();
  int host_runs = 0;
  f.stream->begin_capture(CaptureMode::global);
  EXPECT_EQ(f.stream->capture_status(), CaptureStatus::active);
  f.stream->launch(twice(x.view()));
  f.stream->host_function([&host_runs] { ++host_runs; }, "count");
  auto graph = f.stream->end_capture();
  EXPECT_EQ(f.stream->capture_status(), CaptureStatus::none);
  EXPECT_EQ(f.device->counters().eager_launches, 0U);
  EXPECT_EQ(f.device->counters().captured_nodes, 2U);
  EXPECT_EQ(value(*f.stream, x.view()), 1.0F);
  auto exec = graph->instantiate();
  graph.reset();
  for (int replay = 0; replay < 3; ++replay) exec->launch(*f.stream);
  EXPECT_EQ(value(*f.stream, x.view()), 8.0F);
  EXPECT_EQ(host_runs, 3);
  EXPECT_EQ(exec->launches(), 3U);
  EXPECT_EQ(f.device->counters().graph_launches, 3U);
  EXPECT_EQ(f.device->counters().graph_nodes_run, 6U);
}

TEST(ReferenceGraph, FreezesParametersAndNamesOperands) {
  DeviceFixture f;
  Buffer x = f.buffer();
  OpCall call = set(x.view(), 7.0F);
  f.stream->begin_capture(CaptureMode::relaxed);
  f.stream->launch(call);
  auto graph = f.stream->end_capture();
  call.params = OpParams::of(8.0F);
  ASSERT_EQ(graph->nodes().size(), 1U);
  EXPECT_EQ(graph->nodes()[0].op_name, "set");
  ASSERT_EQ(graph->nodes()[0].operands.size(), 1U);
  EXPECT_EQ(graph->nodes()[0].operands[0].tensor.data, x.view().data);
  graph->instantiate()->launch(*f.stream);
  EXPECT_EQ(value(*f.stream, x.view()), 7.0F) << "the launch outlives its executable";
}

TEST(ReferenceGraph, CapturedPageableUploadReadsTheHostAtEveryReplay) {
  DeviceFixture f;
  Buffer x = f.buffer();
  float host = 1.0F;
  f.stream->begin_capture(CaptureMode::global);
  f.stream->upload(x.view(), &host, false, "upload");
  auto exec = f.stream->end_capture()->instantiate();
  host = 2.0F;
  exec->launch(*f.stream);
  EXPECT_EQ(value(*f.stream, x.view()), 2.0F);
}

// main: set -> twice (x), side: set (y), join: add.
struct ForkJoin {
  explicit ForkJoin(DeviceFixture& f)
      : side(f.device->create_stream("side", StreamKind::non_blocking)),
        x(f.buffer()),
        y(f.buffer()) {
    auto forked = f.device->create_event();
    auto joined = f.device->create_event();
    f.stream->begin_capture(CaptureMode::global);
    f.stream->launch(set(x.view(), 1.0F));
    f.stream->record(*forked);
    side->wait(*forked);
    f.stream->launch(twice(x.view()));
    side->launch(set(y.view(), 10.0F));
    side->record(*joined);
    f.stream->wait(*joined);
    f.stream->launch(add(x.view(), y.view()));
    graph = f.stream->end_capture();
  }
  std::unique_ptr<Stream> side;
  Buffer x;
  Buffer y;
  std::unique_ptr<Graph> graph;
};

TEST(ReferenceGraph, FollowsForksAndJoinsThroughEvents) {
  DeviceFixture f;
  ForkJoin fork(f);
  const auto nodes = fork.graph->nodes();
  ASSERT_EQ(nodes.size(), 4U);
  EXPECT_EQ(nodes[0].dependencies, (std::vector<std::int32_t>{}));
  EXPECT_EQ(nodes[1].dependencies, (std::vector<std::int32_t>{0}));
  EXPECT_EQ(nodes[2].dependencies, (std::vector<std::int32_t>{0}));
  EXPECT_EQ(nodes[3].dependencies, (std::vector<std::int32_t>{1, 2}));
  EXPECT_TRUE(reaches(nodes, 0, 3));
  EXPECT_TRUE(reaches(nodes, 2, 2));
  EXPECT_FALSE(reaches(nodes, 1, 2));
  EXPECT_FALSE(reaches(nodes, 3, 0));
  EXPECT_EQ(fork.side->capture_status(), CaptureStatus::none);
  auto exec = fork.graph->instantiate();
  for (int replay = 0; replay < 20; ++replay) exec->launch(*f.stream);
  EXPECT_EQ(value(*f.stream, fork.x.view()), 12.0F);
}

TEST(ReferenceGraph, ReplaysInVaryingOrdersThatRespectTheEdges) {
  DeviceFixture f;
  constexpr int branches = 4;
  constexpr int replays = 50;
  std::string order;
  std::vector<std::unique_ptr<Stream>> sides;
  auto forked = f.device->create_event();
  f.stream->begin_capture(CaptureMode::global);
  f.stream->host_function([&] { order += 's'; }, "start");
  f.stream->record(*forked);
  for (int branch = 0; branch < branches; ++branch) {
    auto& side = sides.emplace_back(f.device->create_stream("side", StreamKind::non_blocking));
    auto joined = f.device->create_event();
    side->wait(*forked);
    side->host_function([&, branch] { order += static_cast<char>('0' + branch); }, "branch");
    side->record(*joined);
    f.stream->wait(*joined);
  }
  f.stream->host_function([&] { order += 'e'; }, "end");
  auto exec = f.stream->end_capture()->instantiate();

  const auto run = [&](std::uint64_t seed) {
    f.device->set_replay_seed(seed);
    std::set<std::string> orders;
    for (int replay = 0; replay < replays; ++replay) {
      order.clear();
      exec->launch(*f.stream);
      f.stream->synchronize();
      EXPECT_EQ(order.size(), branches + 2U);
      EXPECT_EQ(order.front(), 's');
      EXPECT_EQ(order.back(), 'e');
      orders.insert(order);
    }
    return orders;
  };
  EXPECT_GT(run(1).size(), 10U) << "of 24 orders";
  EXPECT_GT(run(2).size(), 10U);
}

std::vector<std::string> orders_of_two_branches(std::uint64_t seed) {
  DeviceFixture f({.replay_seed = seed});
  std::string order;
  auto side = f.device->create_stream("side", StreamKind::non_blocking);
  auto forked = f.device->create_event();
  auto joined = f.device->create_event();
  f.stream->begin_capture(CaptureMode::global);
  f.stream->record(*forked);
  side->wait(*forked);
  for (char name : {'a', 'b', 'c'}) f.stream->host_function([&order, name] { order += name; }, "m");
  for (char name : {'x', 'y', 'z'}) side->host_function([&order, name] { order += name; }, "s");
  side->record(*joined);
  f.stream->wait(*joined);
  auto exec = f.stream->end_capture()->instantiate();
  std::vector<std::string> orders;
  for (int replay = 0; replay < 10; ++replay) {
    order.clear();
    exec->launch(*f.stream);
    f.stream->synchronize();
    orders.push_back(order);
  }
  return orders;
}

TEST(ReferenceGraph, RepeatsTheOrdersOfASeed) {
  EXPECT_EQ(orders_of_two_branches(3), orders_of_two_branches(3));
  EXPECT_NE(orders_of_two_branches(3), orders_of_two_branches(4));
}

TEST(ReferenceGraph, MissingEdgeGivesAWrongResultForSomeReplay) {
  DeviceFixture f;
  auto side = f.device->create_stream("side", StreamKind::non_blocking);
  auto forked = f.device->create_event();
  auto joined = f.device->create_event();
  Buffer x = f.buffer();
  Buffer y = f.buffer();
  f.stream->begin_capture(CaptureMode::global);
  f.stream->launch(set(x.view(), 0.0F));
  f.stream->launch(set(y.view(), 0.0F));
  f.stream->record(*forked);
  f.stream->launch(set(x.view(), 1.0F));  // the producer: the side stream does not wait for it
  side->wait(*forked);
  side->launch(add(y.view(), x.view()));
  side->record(*joined);
  f.stream->wait(*joined);
  auto exec = f.stream->end_capture()->instantiate();
  std::set<float> seen;
  for (int replay = 0; replay < 64; ++replay) {
    exec->launch(*f.stream);
    seen.insert(value(*f.stream, y.view()));
  }
  EXPECT_EQ(seen, (std::set<float>{0.0F, 1.0F}));
}

TEST(ReferenceGraph, OrdersLaunchesOfOneExecutableOnTwoStreams) {
  DeviceFixture f;
  auto side = f.device->create_stream("side", StreamKind::non_blocking);
  Buffer x = f.buffer();
  f.stream->launch(set(x.view(), 1.0F));
  f.stream->synchronize();
  f.stream->begin_capture(CaptureMode::global);
  f.stream->launch(twice(x.view()));
  auto exec = f.stream->end_capture()->instantiate();
  for (int replay = 0; replay < 5; ++replay) {
    exec->launch(*f.stream);
    exec->launch(*side);
  }
  f.device->synchronize();
  EXPECT_EQ(value(*f.stream, x.view()), 1024.0F);
}

TEST(ReferenceGraph, ErrorInANodeNamesItAndLeavesTheExecutableUsable) {
  DeviceFixture f;
  bool fail = true;
  f.stream->begin_capture(CaptureMode::global);
  f.stream->host_function(
      [&fail] {
        if (fail) throw DeviceError(ErrorCategory::illegal_address, "kernel", "bad address");
      },
      "layer 3 router");
  auto exec = f.stream->end_capture()->instantiate();
  exec->launch(*f.stream);
  try {
    f.device->synchronize();
    FAIL() << "no error was reported";
  } catch (const DeviceError& error) {
    EXPECT_EQ(error.category(), ErrorCategory::illegal_address);
    EXPECT_NE(std::string(error.what()).find("layer 3 router"), std::string::npos);
  }
  fail = false;
  exec->launch(*f.stream);
  EXPECT_NO_THROW(f.device->synchronize());
}

}  // namespace
}  // namespace cgconform::workloads::test

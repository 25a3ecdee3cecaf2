#include <functional>
#include <future>
#include <numeric>
#include <thread>

#include <gtest/gtest.h>

#include "tests/workloads/test_ops.hpp"
#include "workloads/device/memory_store.hpp"

namespace cgconform::workloads::test {
namespace {

using std::chrono::milliseconds;

/// One rank: its own device, stream, allocator and a communicator of all ranks.
struct Rank : DeviceFixture {
  Rank(int number, int size, const std::shared_ptr<RendezvousStore>& store, milliseconds timeout)
      : DeviceFixture({.replay_seed = static_cast<std::uint64_t>(number)}),
        options{.name = "gang", .rank = number, .size = size, .timeout = timeout, .store = store},
        communicator(device->create_communicator(options)) {}

  std::unique_ptr<Communicator> create(const std::string& name) const {
    CommunicatorOptions other = options;
    other.name = name;
    return device->create_communicator(other);
  }

  CommunicatorOptions options;
  std::unique_ptr<Communicator> communicator;
};

void run_ranks(int size, const std::function<void(Rank&)>& body,
               milliseconds timeout = milliseconds(30000)) {
  auto store = std::make_shared<MemoryStore>();
  std::vector<std::thread> threads;
  threads.reserve(static_cast<std::size_t>(size));
  for (int number = 0; number < size; ++number) {
    threads.emplace_back([&, number] {
      try {
        Rank rank(number, size, store, timeout);
        body(rank);
      } catch (const std::exception& error) {
        ADD_FAILURE() << "rank " << number << ": " << error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

ErrorCategory category_of(const std::function<void()>& call, std::string* text = nullptr) {
  try {
    call();
  } catch (const DeviceError& error) {
    if (text != nullptr) *text = error.what();
    return error.category();
  }
  return ErrorCategory::success;
}

TEST(GlooCommunicator, SendsInStreamOrder) {
  run_ranks(2, [](Rank& rank) {
    Buffer x = rank.buffer(3);
    if (rank.communicator->rank() == 0) {
      rank.stream->launch(set(x.view(), 1.0F));
      rank.communicator->send(x.view(), 1, *rank.stream, "first");
      rank.stream->launch(set(x.view(), 2.0F));
      rank.communicator->send(x.view(), 1, *rank.stream, "second");
      rank.stream->launch(set(x.view(), 3.0F));
      rank.stream->synchronize();
    } else {
      Buffer y = rank.buffer(3);
      rank.communicator->receive(x.view(), 0, *rank.stream, "first");
      rank.communicator->receive(y.view(), 0, *rank.stream, "second");
      rank.stream->launch(twice(x.view()));
      EXPECT_EQ(values(*rank.stream, x.view()), (std::vector<float>{2, 2, 2}));
      EXPECT_EQ(values(*rank.stream, y.view()), (std::vector<float>{2, 2, 2}));
    }
    EXPECT_EQ(rank.communicator->async_error(), ErrorCategory::success);
  });
}

TEST(GlooCommunicator, MovesMessagesOfEverySize) {
  constexpr std::array<std::int64_t, 6> sizes{0, 1, 1015, 1016, 1017, 300000};
  run_ranks(2, [&](Rank& rank) {
    for (std::int64_t size : sizes) {
      std::vector<float> host(static_cast<std::size_t>(size));
      Buffer x = rank.buffer(size);
      if (rank.communicator->rank() == 0) {
        std::iota(host.begin(), host.end(), 1.0F);
        rank.stream->upload(x.view(), host.data(), false, "data");
        rank.communicator->send(x.view(), 1, *rank.stream, "data");
        rank.stream->synchronize();
      } else {
        rank.communicator->receive(x.view(), 0, *rank.stream, "data");
        std::vector<float> expected(static_cast<std::size_t>(size));
        std::iota(expected.begin(), expected.end(), 1.0F);
        EXPECT_EQ(values(*rank.stream, x.view()), expected);
      }
    }
  });
}

TEST(GlooCommunicator, ReducesInRankOrderInAndOutOfPlace) {
  // 1e8 + 1 - 1e8 depends on the order in fp32; rank order gives ((1e8 + 1) - 1e8) + 3.
  constexpr std::array<float, 4> inputs{1e8F, 1.0F, -1e8F, 3.0F};
  const float expected = ((inputs[0] + inputs[1]) + inputs[2]) + inputs[3];
  run_ranks(4, [&](Rank& rank) {
    Buffer x = rank.buffer();
    Buffer y = rank.buffer();
    rank.stream->launch(
        set(x.view(), inputs.at(static_cast<std::size_t>(rank.communicator->rank()))));
    rank.communicator->all_reduce(y.view(), x.view(), ReduceOp::sum, *rank.stream, "out of place");
    rank.communicator->all_reduce(x.view(), x.view(), ReduceOp::max, *rank.stream, "in place");
    EXPECT_EQ(value(*rank.stream, y.view()), expected);
    EXPECT_EQ(value(*rank.stream, x.view()), 1e8F);
  });
}

TEST(GlooCommunicator, ReducesSixteenBitFloats) {
  run_ranks(2, [](Rank& rank) {
    for (DType dtype : {DType::bf16, DType::fp16}) {
      Buffer x(rank.allocator, *rank.stream, default_pool, dtype, {3}, "x");
      // 1.5, -2 and the largest finite fp16 (also a bf16) in their encodings.
      const std::array<std::uint16_t, 3> host =
          dtype == DType::bf16 ? std::array<std::uint16_t, 3>{0x3fc0, 0xc000, 0x3f80}
                               : std::array<std::uint16_t, 3>{0x3e00, 0xc000, 0x7bff};
      const std::array<std::uint16_t, 3> expected =
          dtype == DType::bf16 ? std::array<std::uint16_t, 3>{0x4040, 0xc080, 0x4000}
                               : std::array<std::uint16_t, 3>{0x4200, 0xc400, 0x7c00};
      rank.stream->upload(x.view(), host.data(), false, "x");
      rank.communicator->all_reduce(x.view(), x.view(), ReduceOp::sum, *rank.stream, "sum");
      std::array<std::uint16_t, 3> result{};
      rank.stream->download(result.data(), x.view());
      EXPECT_EQ(result, expected) << dtype_name(dtype);
    }
  });
}

TEST(GlooCommunicator, BroadcastsFromTheRootAndExchangesOnTheHost) {
  run_ranks(4, [](Rank& rank) {
    const int number = rank.communicator->rank();
    Buffer x = rank.buffer();
    rank.stream->launch(set(x.view(), static_cast<float>(number)));
    rank.communicator->broadcast(x.view(), 2, *rank.stream, "broadcast");
    const auto all = rank.communicator->exchange("rank" + std::to_string(number));
    EXPECT_EQ(all, (std::vector<std::string>{"rank0", "rank1", "rank2", "rank3"}));
    EXPECT_EQ(value(*rank.stream, x.view()), 2.0F);
  });
}

TEST(GlooCommunicator, GathersPartsInRankOrderAndLeavesEachRankItsShareOfASum) {
  run_ranks(3, [](Rank& rank) {
    const int number = rank.communicator->rank();
    const auto numbers = [&](std::int64_t count) {
      return Buffer(rank.allocator, *rank.stream, default_pool, DType::fp32, {count}, "numbers");
    };
    const Buffer own = numbers(2);
    const Buffer all = numbers(6);
    const std::array<float, 2> mine{static_cast<float>(number), 10.0F};
    rank.stream->upload(own.view(), mine.data(), false, "own");
    std::array<float, 6> gathered{};
    std::array<float, 2> share{};
    const auto communicate = [&] {
      rank.communicator->all_gather(all.view(), own.view(), *rank.stream, "gather");
      rank.communicator->reduce_scatter(own.view(), all.view(), *rank.stream, "scatter");
    };
    const auto look = [&] {
      rank.stream->download(gathered.data(), all.view());
      rank.stream->download(share.data(), own.view());
    };
    communicate();
    look();
    EXPECT_EQ(gathered, (std::array<float, 6>{0, 10, 1, 10, 2, 10}));
    EXPECT_EQ(share, (std::array<float, 2>{3.0F * static_cast<float>(number), 30.0F}));

    rank.stream->begin_capture(CaptureMode::thread_local_mode);
    communicate();
    const auto graph = rank.stream->end_capture();
    const auto exec = graph->instantiate();
    exec->launch(*rank.stream);
    look();
    EXPECT_EQ(gathered, (std::array<float, 6>{0, 30, 3, 30, 6, 30}));
    EXPECT_EQ(share, (std::array<float, 2>{9.0F * static_cast<float>(number), 90.0F}));
  });
}

TEST(GlooCommunicator, RefusesCollectivesOfTensorsThatDoNotFit) {
  run_ranks(2, [](Rank& rank) {
    const Buffer x = rank.buffer();
    const auto expect_refused = [&](const auto& call) {
      EXPECT_EQ(category_of(call), ErrorCategory::communicator_invalid_usage);
    };
    expect_refused(
        [&] { rank.communicator->all_gather(x.view(), x.view(), *rank.stream, "gather"); });
    expect_refused(
        [&] { rank.communicator->reduce_scatter(x.view(), x.view(), *rank.stream, "scatter"); });
    TensorView ints = x.view();
    ints.dtype = DType::int32;
    expect_refused([&] {
      rank.communicator->all_reduce(ints, x.view(), ReduceOp::sum, *rank.stream, "reduce");
    });
  });
}

TEST(GlooCommunicator, ReplaysCapturedMessagesBesideEagerOnes) {
  run_ranks(2, [](Rank& rank) {
    const bool sender = rank.communicator->rank() == 0;
    Buffer x = rank.buffer();
    Buffer sum = rank.buffer();
    rank.stream->launch(set(x.view(), sender ? 1.0F : 0.0F));
    rank.stream->launch(set(sum.view(), 0.0F));
    rank.stream->begin_capture(CaptureMode::thread_local_mode);
    if (sender) {
      rank.stream->launch(twice(x.view()));
      rank.communicator->send(x.view(), 1, *rank.stream, "activation");
    } else {
      rank.communicator->receive(x.view(), 0, *rank.stream, "activation");
      rank.stream->launch(add(sum.view(), x.view()));
    }
    rank.communicator->all_reduce(sum.view(), sum.view(), ReduceOp::max, *rank.stream, "max");
    auto graph = rank.stream->end_capture();
    auto exec = graph->instantiate();
    EXPECT_EQ(rank.communicator->live_graph_references(), 2);
    EXPECT_EQ(graph->nodes()[sender ? 1 : 0].kind, NodeKind::communication);
    for (int step = 0; step < 5; ++step) {
      exec->launch(*rank.stream);
      rank.communicator->all_reduce(sum.view(), sum.view(), ReduceOp::max, *rank.stream, "eager");
    }
    EXPECT_EQ(value(*rank.stream, sum.view()), 2.0F + 4.0F + 8.0F + 16.0F + 32.0F);
    graph.reset();
    exec.reset();
    EXPECT_EQ(rank.communicator->live_graph_references(), 0);
  });
}

TEST(GlooCommunicator, OrdersOperationsOfOneCommunicatorByEdges) {
  run_ranks(2, [](Rank& rank) {
    auto side = rank.device->create_stream("side", StreamKind::non_blocking);
    auto forked = rank.device->create_event();
    auto joined = rank.device->create_event();
    Buffer x = rank.buffer();
    Buffer y = rank.buffer();
    rank.stream->begin_capture(CaptureMode::thread_local_mode);
    rank.stream->record(*forked);
    side->wait(*forked);
    rank.communicator->all_reduce(x.view(), x.view(), ReduceOp::sum, *rank.stream, "x");
    rank.communicator->all_reduce(y.view(), y.view(), ReduceOp::sum, *side, "y");
    side->record(*joined);
    rank.stream->wait(*joined);
    const auto graph = rank.stream->end_capture();
    EXPECT_TRUE(reaches(graph->nodes(), 0, 1));
    rank.communicator->exchange("");
  });
}

// Each rank has two independent branches, one a communicator; their order varies from rank to rank.
TEST(GlooCommunicator, IndependentNodesInDifferentOrdersDoNotDeadlock) {
  run_ranks(2, [](Rank& rank) {
    constexpr int branches = 3;
    std::vector<std::unique_ptr<Communicator>> communicators;
    std::vector<std::unique_ptr<Stream>> streams;
    std::vector<Buffer> buffers;
    for (int branch = 0; branch < branches; ++branch) {
      communicators.push_back(rank.create("branch" + std::to_string(branch)));
      streams.push_back(rank.device->create_stream("side", StreamKind::non_blocking));
      buffers.push_back(rank.buffer());
    }
    auto forked = rank.device->create_event();
    rank.stream->begin_capture(CaptureMode::thread_local_mode);
    rank.stream->record(*forked);
    for (std::size_t branch = 0; branch < branches; ++branch) {
      auto joined = rank.device->create_event();
      streams[branch]->wait(*forked);
      const TensorView x = buffers[branch].view();
      streams[branch]->launch(set(x, 1.0F));
      communicators[branch]->all_reduce(x, x, ReduceOp::sum, *streams[branch], "sum");
      communicators[branch]->all_reduce(x, x, ReduceOp::sum, *streams[branch], "sum");
      streams[branch]->record(*joined);
      rank.stream->wait(*joined);
    }
    auto exec = rank.stream->end_capture()->instantiate();
    for (int replay = 0; replay < 30; ++replay) exec->launch(*rank.stream);
    for (Buffer& x : buffers) EXPECT_EQ(value(*rank.stream, x.view()), 4.0F);
  });
}

TEST(GlooCommunicator, AnUnmatchedReceiveOnOneStreamDoesNotHoldUpAnother) {
  run_ranks(2, [](Rank& rank) {
    auto other = rank.create("other");
    auto side = rank.device->create_stream("side", StreamKind::non_blocking);
    Buffer x = rank.buffer();
    Buffer y = rank.buffer();
    rank.stream->launch(set(x.view(), 1.0F));
    rank.stream->synchronize();
    if (rank.communicator->rank() == 0) {
      rank.communicator->receive(x.view(), 1, *rank.stream, "late");
      other->send(y.view(), 1, *side, "early");
    } else {
      other->receive(y.view(), 0, *side, "early");
      side->synchronize();
      rank.communicator->send(x.view(), 0, *rank.stream, "late");
    }
    rank.device->synchronize();
  });
}

TEST(GlooCommunicator, NamesRanksThatDisagree) {
  run_ranks(2, [](Rank& rank) {
    Buffer x = rank.buffer(4);
    Buffer y = rank.buffer(2);
    const bool first = rank.communicator->rank() == 0;
    const TensorView tensor = first ? x.view() : y.view();
    rank.communicator->all_reduce(tensor, tensor, ReduceOp::sum, *rank.stream, "grads");
    std::string text;
    EXPECT_EQ(category_of([&] { rank.stream->synchronize(); }, &text),
              ErrorCategory::communicator_mismatch);
    EXPECT_NE(text.find("16 bytes"), std::string::npos) << text;
    EXPECT_NE(text.find("8 bytes"), std::string::npos) << text;
    EXPECT_NE(text.find("grads"), std::string::npos) << text;
    EXPECT_EQ(rank.communicator->async_error(), ErrorCategory::communicator_mismatch);
  });
}

TEST(GlooCommunicator, DetectsOneRankEagerAndTheOtherCaptured) {
  run_ranks(2, [](Rank& rank) {
    Buffer x = rank.buffer();
    const auto reduce = [&] {
      rank.communicator->all_reduce(x.view(), x.view(), ReduceOp::sum, *rank.stream, "loss");
    };
    std::unique_ptr<GraphExec> exec;
    if (rank.communicator->rank() == 0) {
      rank.stream->begin_capture(CaptureMode::thread_local_mode);
      reduce();
      exec = rank.stream->end_capture()->instantiate();
      exec->launch(*rank.stream);
    } else {
      reduce();
    }
    EXPECT_EQ(category_of([&] { rank.stream->synchronize(); }),
              ErrorCategory::communicator_mismatch);
  });
}

TEST(GlooCommunicator, ASilentPeerIsATimeoutThatNamesTheMissingMessage) {
  std::promise<void> timed_out;
  run_ranks(
      2,
      [&timed_out](Rank& rank) {
        Buffer x = rank.buffer();
        if (rank.communicator->rank() == 0) {
          rank.communicator->receive(x.view(), 1, *rank.stream, "layer 1 input");
          std::string text;
          EXPECT_EQ(category_of([&] { rank.stream->synchronize(); }, &text),
                    ErrorCategory::communicator_timeout);
          EXPECT_NE(text.find("layer 1 input"), std::string::npos) << text;
          EXPECT_NE(text.find("rank 1"), std::string::npos) << text;
          EXPECT_EQ(rank.communicator->async_error(), ErrorCategory::communicator_timeout);
          timed_out.set_value();
        } else {
          timed_out.get_future().wait();
        }
      },
      milliseconds(300));
}

TEST(GlooCommunicator, APeerThatLeavesInReplayIsAnErrorAndNotAHang) {
  run_ranks(4, [](Rank& rank) {
    Buffer x = rank.buffer();
    rank.stream->launch(set(x.view(), 1.0F));
    rank.stream->begin_capture(CaptureMode::thread_local_mode);
    rank.communicator->all_reduce(x.view(), x.view(), ReduceOp::max, *rank.stream, "sum");
    auto exec = rank.stream->end_capture()->instantiate();
    exec->launch(*rank.stream);
    rank.stream->synchronize();
    if (rank.communicator->rank() == 3) return;
    exec->launch(*rank.stream);
    std::string text;
    EXPECT_EQ(category_of([&] { rank.stream->synchronize(); }, &text),
              ErrorCategory::communicator_error);
    EXPECT_NE(text.find("rank 3"), std::string::npos) << text;
  });
}

TEST(GlooCommunicator, CloseWaitsForGraphsAndRefusesTheirLaunchesAfterwards) {
  run_ranks(
      2,
      [](Rank& rank) {
        Buffer x = rank.buffer();
        rank.stream->begin_capture(CaptureMode::thread_local_mode);
        rank.communicator->all_reduce(x.view(), x.view(), ReduceOp::sum, *rank.stream, "sum");
        auto exec = rank.stream->end_capture()->instantiate();
        EXPECT_EQ(category_of([&] { rank.communicator->close(); }),
                  ErrorCategory::communicator_timeout);
        EXPECT_EQ(category_of([&] { exec->launch(*rank.stream); }),
                  ErrorCategory::communicator_invalid_usage);
        auto other = rank.create("other");
        rank.stream->begin_capture(CaptureMode::thread_local_mode);
        other->all_reduce(x.view(), x.view(), ReduceOp::sum, *rank.stream, "sum");
        exec = rank.stream->end_capture()->instantiate();
        std::thread closer([&] { other->close(); });
        exec.reset();
        closer.join();
        EXPECT_EQ(other->live_graph_references(), 0);
      },
      milliseconds(300));
}

TEST(GlooCommunicator, RefusesUnsoundUse) {
  DeviceFixture f;
  EXPECT_EQ(
      category_of([&] { f.device->create_communicator({.name = "x", .rank = 1, .size = 1}); }),
      ErrorCategory::communicator_invalid_usage);
  EXPECT_EQ(
      category_of([&] { f.device->create_communicator({.name = "x", .rank = 0, .size = 2}); }),
      ErrorCategory::communicator_invalid_usage);
  auto alone = f.device->create_communicator({.name = "alone"});
  Buffer x = f.buffer();
  f.stream->launch(set(x.view(), 3.0F));
  EXPECT_EQ(category_of([&] { alone->send(x.view(), 0, *f.stream, "self"); }),
            ErrorCategory::communicator_invalid_usage);
  alone->all_reduce(x.view(), x.view(), ReduceOp::sum, *f.stream, "sum");
  alone->broadcast(x.view(), 0, *f.stream, "broadcast");
  EXPECT_EQ(value(*f.stream, x.view()), 3.0F);
  EXPECT_EQ(alone->exchange("me"), (std::vector<std::string>{"me"}));
}

TEST(GlooCommunicator, AMissingRankIsATimeoutAtCreation) {
  DeviceFixture f;
  auto store = std::make_shared<MemoryStore>();
  EXPECT_EQ(
      category_of([&] {
        f.device->create_communicator(
            {.name = "gang", .rank = 0, .size = 2, .timeout = milliseconds(100), .store = store});
      }),
      ErrorCategory::communicator_timeout);
}

}  // namespace
}  // namespace cgconform::workloads::test

#pragma once

#include <exception>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "tests/workloads/training_legs.hpp"
#include "workloads/device/memory_store.hpp"

namespace cgconform::workloads::testing {

/// What is compared and counted of one rank's leg, taken before its device goes.
struct RankLeg {
  LegRecord record;  ///< without snapshots
  ObservedBytes bytes;
};

/// Runs a leg of a cell on ranks that are threads, each with a device of its own.
inline std::vector<RankLeg> run_ranks(const matrix::Cell& cell, const LegRequest& request,
                                      const FaultSwitches& faults = {}) {
  const int size = cell.ranks();
  const auto store = std::make_shared<MemoryStore>();
  std::vector<RankLeg> legs(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  threads.reserve(static_cast<std::size_t>(size));
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      RankLeg& leg = legs[static_cast<std::size_t>(rank)];
      try {
        const auto device = create_reference_device({.arena_bytes = 64 << 20});
        const auto gang = device->create_communicator(
            {.name = "gang", .rank = rank, .size = size, .store = store});
        leg.record = run_leg(cell, request,
                             {.device = *device,
                              .gang = size > 1 ? gang.get() : nullptr,
                              .seed = 11,
                              .faults = faults});
        leg.bytes = bytes_of(leg.record, *device);
        EXPECT_EQ(gang->live_graph_references(), 0);
        leg.record.observations.clear();
        leg.record.memory.reset();
      } catch (const std::exception& error) {
        leg.record.error = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return legs;
}

}  // namespace cgconform::workloads::testing

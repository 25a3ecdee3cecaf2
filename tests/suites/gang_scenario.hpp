#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "suites/cell_runner.hpp"
#include "workloads/device/memory_store.hpp"

/// Scenarios of a gang in this process: what two workers do, each rank a thread.
namespace cgconform::suites {

inline std::vector<RankReport> run_gang(
    const std::function<RankReport(ScenarioContext&)>& run_rank) {
  constexpr int ranks = 2;
  const auto store = std::make_shared<workloads::MemoryStore>();
  std::vector<RankReport> reports(ranks);
  std::vector<std::thread> threads;
  threads.reserve(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        const auto device = workloads::create_reference_device({.replay_seed = 3});
        const auto create = [&](const std::string& name) {
          return device->create_communicator(
              {.name = name, .rank = rank, .size = ranks, .store = store});
        };
        const auto gang = create("gang");
        ScenarioContext context{
            .device = device.get(), .gang = gang.get(), .communicator = create, .seed = 2};
        RankReport& report = reports[static_cast<std::size_t>(rank)];
        report = run_rank(context);
        report.rank = rank;
      } catch (const std::exception& error) {
        ADD_FAILURE() << "rank " << rank << ": " << error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return reports;
}

}  // namespace cgconform::suites

#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "matrix/error.hpp"
#include "suites/cell_runner.hpp"
#include "suites/merge.hpp"
#include "suites/selftest_table.hpp"
#include "workloads/device/memory_store.hpp"
#include "workloads/training/leg.hpp"

/// Real cells on the reference device, in this process: what a worker does, without a worker.
namespace cgconform::suites {

struct InProcessRun {
  matrix::Cell cell;
  std::vector<workloads::Fault> faults;
  workloads::Sabotage sabotage = workloads::Sabotage::none;
  std::uint64_t seed = 1;
};

inline RankReport run_rank(const InProcessRun& run, workloads::Device& device,
                           workloads::Communicator* gang) {
  workloads::LegEnvironment legs{
      .device = device, .gang = gang, .seed = run.seed, .sabotage = run.sabotage};
  for (const workloads::Fault fault : run.faults) legs.faults.turn_on(fault);
  const auto comparator = run.sabotage == workloads::Sabotage::comparator_says_equal
                              ? create_equal_saying_comparator()
                              : create_device_comparator(device);
  const LegSource source = [&](const matrix::Cell& cell, const workloads::LegRequest& request) {
    return workloads::run_leg(cell, request, legs);
  };
  return run_cell(run.cell, {.cell_id = "in process", .seed = run.seed}, source,
                  {device, *comparator, gang});
}

/// Runs a cell, each rank of its gang as a thread with a device of its own. A rank that throws
/// leaves no report, as a worker that dies does.
inline CellResult run_in_process(const InProcessRun& run) {
  const int ranks = run.cell.ranks();
  const auto store = std::make_shared<workloads::MemoryStore>();
  std::vector<RankReport> reports;
  std::mutex reports_mutex;
  std::vector<std::thread> threads;
  threads.reserve(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        const auto device = workloads::create_reference_device({.replay_seed = run.seed});
        std::unique_ptr<workloads::Communicator> gang;
        if (ranks > 1) {
          gang = device->create_communicator(
              {.name = "gang", .rank = rank, .size = ranks, .store = store});
        }
        RankReport report = run_rank(run, *device, gang.get());
        const std::lock_guard lock(reports_mutex);
        reports.push_back(std::move(report));
      } catch (const Error& error) {
        ADD_FAILURE() << "rank " << rank << ": " << error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return merge_reports({.id = "in process", .ranks = ranks}, std::move(reports));
}

}  // namespace cgconform::suites

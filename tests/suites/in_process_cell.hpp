#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "suites/cell_runner.hpp"
#include "suites/merge.hpp"
#include "suites/selftest_table.hpp"
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

/// Runs a cell of one rank.
inline CellResult run_in_process(const InProcessRun& run) {
  const auto device = workloads::create_reference_device({.replay_seed = run.seed});
  return merge_reports({.id = "in process", .ranks = 1}, {run_rank(run, *device, nullptr)});
}

}  // namespace cgconform::suites

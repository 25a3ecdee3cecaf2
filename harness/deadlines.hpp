#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <span>

#include "workloads/device/progress.hpp"

namespace cgconform::harness {

constexpr std::size_t phase_count = static_cast<std::size_t>(workloads::Phase::teardown) + 1;

struct DeadlineRow {
  workloads::Phase phase;
  std::chrono::milliseconds deadline;  ///< before scaling
};

/// How long a worker may stay in each phase. `idle` is the time a worker has to begin a cell it was
/// given.
std::span<const DeadlineRow> deadline_table();

/// The deadlines of one run.
class Deadlines {
 public:
  /// `scale` multiplies the whole table. A cell may take `cell` in all.
  explicit Deadlines(double scale = 1.0,
                     std::chrono::milliseconds cell = std::chrono::milliseconds{600000});

  std::chrono::milliseconds phase(workloads::Phase phase) const {
    return phases_.at(static_cast<std::size_t>(phase));
  }
  /// Of a cell in all, also where it goes through its phases again and again.
  std::chrono::milliseconds cell() const { return cell_; }
  /// Between TERM and KILL.
  std::chrono::milliseconds grace() const { return std::chrono::milliseconds{250}; }
  /// For the stacks of a rank that is about to be ended.
  std::chrono::milliseconds stack_dump() const { return std::chrono::milliseconds{150}; }
  /// For a new worker to say that it is ready.
  std::chrono::milliseconds worker_start() const { return worker_start_; }

 private:
  std::array<std::chrono::milliseconds, phase_count> phases_{};
  std::chrono::milliseconds cell_;
  std::chrono::milliseconds worker_start_;
};

}  // namespace cgconform::harness

#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "workloads/training/memory_record.hpp"

namespace cgconform::suites {

/// Something a leg or its process holds that may grow from cycle to cycle.
struct MemoryQuantity {
  std::string_view name;
  double (*value)(const workloads::MemorySample& sample);
  /// Growth a cycle that is noise: the system's own bookkeeping.
  double noise = 0.0;
  /// True where a cycle that is over must leave no more of it than there was before the first.
  bool returns_to_start = false;
  /// True where it also holds what the communication library keeps of its messages: not judged
  /// where ranks communicate.
  bool counts_messages = false;
  /// Noise where a GPU's driver and its libraries allocate beside: they grow by tens of KiB a
  /// cycle.
  double noise_by_driver = 0.0;
};
std::span<const MemoryQuantity> memory_quantities();

/// Growth a sample that all but the slowest quarter of the pairs of samples show (the lower
/// quartile of the slopes of all pairs). A single step, early or late, gives 0; 0 for fewer than
/// three samples.
double steady_growth(std::span<const double> samples);

/// The first quantity that grows with every cycle, or does not return to its start, in words.
/// `samples` were taken after each cycle; the first `warmup` cycles may raise what they like. Not
/// what comes with the first cycle is a leak, but what comes with each.
std::optional<std::string> find_growth(const workloads::MemorySample& start,
                                       std::span<const workloads::MemorySample> samples,
                                       std::size_t warmup, bool communicates = false);

}  // namespace cgconform::suites

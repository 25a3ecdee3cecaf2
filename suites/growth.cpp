#include "suites/growth.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

#include <fmt/format.h>

namespace cgconform::suites {
namespace {

using workloads::MemorySample;

constexpr double kibibyte = 1024.0;

// The most telling first: a graph that is kept keeps blocks, too.
constexpr std::array quantities{
    MemoryQuantity{"graphs",
                   [](const MemorySample& s) { return static_cast<double>(s.device.graphs); }, 0.0,
                   true},
    MemoryQuantity{"executables",
                   [](const MemorySample& s) { return static_cast<double>(s.device.executables); },
                   0.0, true},
    MemoryQuantity{"user objects of graphs",
                   [](const MemorySample& s) { return static_cast<double>(s.device.user_objects); },
                   0.0, true},
    MemoryQuantity{"blocks",
                   [](const MemorySample& s) { return static_cast<double>(s.live_blocks); }},
    MemoryQuantity{"bytes in blocks",
                   [](const MemorySample& s) { return static_cast<double>(s.active_bytes); }},
    MemoryQuantity{"bytes in segments of pools",
                   [](const MemorySample& s) { return static_cast<double>(s.reserved_bytes); }},
    MemoryQuantity{
        "bytes of the segment source",
        [](const MemorySample& s) { return static_cast<double>(s.device.segment_bytes); }},
    MemoryQuantity{"bytes reserved for graphs",
                   [](const MemorySample& s) { return static_cast<double>(s.device.graph_bytes); }},
    MemoryQuantity{"device bytes in use",
                   [](const MemorySample& s) { return static_cast<double>(s.used_bytes); },
                   64 * kibibyte},
    MemoryQuantity{"streams",
                   [](const MemorySample& s) { return static_cast<double>(s.device.streams); }},
    MemoryQuantity{"events",
                   [](const MemorySample& s) { return static_cast<double>(s.device.events); }},
    MemoryQuantity{
        "file descriptors",
        [](const MemorySample& s) { return static_cast<double>(s.host.file_descriptors); }},
    MemoryQuantity{"pinned bytes",
                   [](const MemorySample& s) { return static_cast<double>(s.host.pinned_bytes); }},
    MemoryQuantity{"bytes on the host's heap",
                   [](const MemorySample& s) { return static_cast<double>(s.host.heap_bytes); },
                   4 * kibibyte, false, true, 256 * kibibyte},
    MemoryQuantity{"resident bytes",
                   [](const MemorySample& s) { return static_cast<double>(s.host.resident_bytes); },
                   256 * kibibyte, false, false, 1024 * kibibyte},
};

}  // namespace

std::span<const MemoryQuantity> memory_quantities() {
  return quantities;
}

double steady_growth(std::span<const double> samples) {
  constexpr std::size_t fewest = 3;
  if (samples.size() < fewest) return 0.0;
  std::vector<double> slopes;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    for (std::size_t j = i + 1; j < samples.size(); ++j) {
      slopes.push_back((samples[j] - samples[i]) / static_cast<double>(j - i));
    }
  }
  const auto quartile = slopes.begin() + static_cast<std::ptrdiff_t>(slopes.size() / 4);
  std::nth_element(slopes.begin(), quartile, slopes.end());
  return *quartile;
}

std::optional<std::string> find_growth(const MemorySample& start,
                                       std::span<const MemorySample> samples, std::size_t warmup,
                                       bool communicates) {
  for (const MemoryQuantity& quantity : quantities) {
    if (communicates && quantity.counts_messages) continue;
    std::vector<double> values;
    for (const MemorySample& sample : samples) values.push_back(quantity.value(sample));
    const double before = quantity.value(start);
    if (quantity.returns_to_start && !values.empty()) {
      const auto most = std::max_element(values.begin(), values.end());
      if (*most > before) {
        return fmt::format(
            "{}: {:.0f} before the first cycle and {:.0f} after cycle {}, whose "
            "graphs were destroyed",
            quantity.name, before, *most, most - values.begin());
      }
    }
    if (values.size() <= warmup) continue;
    const double growth = steady_growth(std::span(values).subspan(warmup));
    const double noise =
        start.by_driver ? std::max(quantity.noise, quantity.noise_by_driver) : quantity.noise;
    if (growth > noise) {
      return fmt::format("{} grow by {:.0f} a cycle: {:.0f} after cycle {}, {:.0f} after cycle {}",
                         quantity.name, growth, values[warmup], warmup, values.back(),
                         values.size() - 1);
    }
  }
  return std::nullopt;
}

}  // namespace cgconform::suites

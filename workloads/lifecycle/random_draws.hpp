#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "workloads/allocator/caching_allocator.hpp"
#include "workloads/device/device.hpp"
#include "workloads/rng/rng_tracker.hpp"

namespace cgconform::workloads {

class FaultSwitches;

/// Masks of one draw, an element a byte.
struct DrawnMasks {
  std::vector<std::uint8_t> data_parallel;
  std::vector<std::uint8_t> tensor_parallel;
  friend bool operator==(const DrawnMasks&, const DrawnMasks&) = default;
};

/// Draws dropout masks from a tracker's streams in turn, eagerly and from one captured graph.
class RandomDraws {
 public:
  /// `faults` act on what is captured; null where all are off.
  RandomDraws(Device& device, std::uint64_t seed, const RngPlace& place,
              const FaultSwitches* faults);

  DrawnMasks draw_eagerly();
  DrawnMasks draw_from_graph();
  void reseed(std::uint64_t seed) { tracker_.reseed(*stream_, seed); }
  Buffer save();
  void restore(const Buffer& saved);

 private:
  void draw(const FaultSwitches* faults);
  DrawnMasks masks();

  std::unique_ptr<Stream> stream_;
  CachingAllocator allocator_;
  RngTracker tracker_;
  Buffer values_;
  Buffer dropped_;
  std::vector<Buffer> masks_;
  Buffer baked_;  ///< the state of capture time, where it is baked in
  std::unique_ptr<Graph> graph_;
  std::unique_ptr<GraphExec> exec_;
};

}  // namespace cgconform::workloads

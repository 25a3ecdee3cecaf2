#pragma once

#include <string>
#include <utility>
#include <vector>

#include "matrix/cell.hpp"
#include "workloads/allocator/caching_allocator.hpp"
#include "workloads/device/communicator.hpp"
#include "workloads/training/stage_model.hpp"

namespace cgconform::workloads {

/// Clips gradients by their norm over all parameters of the whole model, all of it in device
/// memory and in stream order, so that a graph can hold it. A parameter that several ranks have
/// counts once: on the first replica, and on the first tensor-parallel rank where those share it.
class GradientClipping {
 public:
  /// `gang` is null where the cell has one rank.
  GradientClipping(const matrix::Cell& cell, const StageModel& model, CachingAllocator& allocator,
                   Stream& stream, Communicator* gang);

  /// Computes norm and factor from gradients that are complete.
  void measure(Stream& stream, const TensorView& overflowed);
  /// Multiplies the gradients by `factor`, the own one or one from elsewhere.
  void apply(Stream& stream, const TensorView& factor);

  const TensorView& factor() const { return factor_.view(); }
  /// Norm and factor by name.
  std::vector<std::pair<std::string, TensorView>> state() const;

 private:
  /// A chunk of gradients and the parameters in it.
  struct Chunk {
    TensorView grads;
    Buffer parts;
    TensorView sums;  ///< of the parts
  };

  float largest_norm_;
  Communicator* gang_;
  Buffer sums_;
  Buffer squares_;
  Buffer norm_;
  Buffer factor_;
  std::vector<Chunk> chunks_;
};

}  // namespace cgconform::workloads

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "matrix/cell.hpp"
#include "workloads/allocator/caching_allocator.hpp"
#include "workloads/device/communicator.hpp"
#include "workloads/ops/fp8.hpp"

namespace cgconform::workloads {

class FaultSwitches;

/// Of the collective that reduces magnitudes over ranks.
constexpr std::string_view amax_label = "fp8 amax";

/// The matrices of a linear layer that are quantised.
enum class Fp8Operand : std::uint8_t { input, weight, grad_output };

/// Where the scale of one matrix lies: scalars in device memory.
struct Fp8Scaling {
  TensorView scale;    ///< numbers are multiplied by it before they are rounded
  TensorView descale;  ///< its reciprocal
  TensorView amax;     ///< the largest magnitude of the step so far
  EightBitFormat format = EightBitFormat::e4m3;
};

/// What the linear layers of a stage keep for 8-bit arithmetic, as Transformer Engine does, all of
/// it in device memory: a scale for each quantised matrix and, for delayed scaling, the largest
/// magnitudes of the last steps. Weights are quantised in the first micro-batch of a step; the
/// others use what it has left.
class Fp8State {
 public:
  /// `amax_group` are the ranks over which magnitudes are reduced; null where there is one.
  Fp8State(const matrix::Cell& cell, CachingAllocator& allocator, Stream& stream,
           Communicator* amax_group);

  /// The number of a further layer. Throws InternalError after `initialise`.
  std::int32_t add_linear();
  /// Makes what all layers added so far keep; nothing else works before.
  void initialise();
  Fp8Scaling scaling(std::int32_t linear, Fp8Operand operand) const;
  /// Memory that lives as long as this, of `shape` bytes.
  TensorView keep_bytes(const Shape& shape);
  bool delayed() const { return delayed_; }
  const TensorView& weights_cached() const { return weights_cached_; }
  /// How often weights were quantised in training.
  const TensorView& refreshes() const { return refreshes_; }

  /// Before the forward of a micro-batch: says whether weights have to be quantised.
  void begin_microbatch(Stream& stream, std::int32_t microbatch, const FaultSwitches& faults);
  /// After the last backward of a step: reduces the magnitudes over ranks and moves scales and
  /// history on. Does nothing with current scaling.
  void end_step(Stream& stream, const FaultSwitches& faults);
  /// The fault of a recompute that moves a layer's scales on, as the end of a step does.
  void update_again(Stream& stream, std::int32_t linear);

  /// All that changes from call to call, as one tensor.
  const TensorView& memory() const { return memory_.view(); }
  /// All memory that it keeps: the above, limits of formats, and what `keep_bytes` gave.
  std::vector<TensorView> tensors() const;
  /// Parts of `memory` by name.
  std::vector<std::pair<std::string, TensorView>> state() const;

 private:
  void reduce(Stream& stream, const TensorView& magnitudes);
  TensorView part(std::int64_t first, const Shape& shape) const;

  static constexpr std::int32_t operands_a_linear = 3;

  CachingAllocator& allocator_;
  Stream& stream_;
  Communicator* amax_group_;
  bool delayed_;
  EightBitFormat gradient_format_;
  UpdateScalesParams update_;
  std::int64_t history_length_;
  std::int32_t linears_ = 0;
  Buffer memory_;
  Buffer largest_;
  std::vector<Buffer> kept_;
  ScalingView scaling_;
  TensorView refreshes_;
  TensorView weights_cached_;
};

}  // namespace cgconform::workloads

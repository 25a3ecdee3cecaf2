#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "matrix/cell.hpp"
#include "workloads/allocator/caching_allocator.hpp"
#include "workloads/allocator/segment_kind.hpp"
#include "workloads/capture/capture_plan.hpp"
#include "workloads/layers/layer.hpp"
#include "workloads/layers/model_type.hpp"
#include "workloads/parallel/launch_ledger.hpp"
#include "workloads/training/leg.hpp"
#include "workloads/training/recorder.hpp"

namespace cgconform::workloads {

/// The memory and streams of one leg. Outlives the leg in its record, whose snapshots lie here.
struct LegMemory {
  /// Guard bands about blocks cost two fills each, and only instrumented legs look at them.
  explicit LegMemory(Device& device, bool guard_bands = true,
                     SegmentKind segments = SegmentKind::plain);
  ~LegMemory();
  LegMemory(const LegMemory&) = delete;
  LegMemory& operator=(const LegMemory&) = delete;

  /// Side stream number `index`, made on first use.
  Stream& side_stream(std::size_t index);
  /// The side stream of weight gradients, made on first use.
  Stream& wgrad_stream();
  /// Event number `index` of those by which bodies fork and join, made on first use. It is recorded
  /// anew at every fork: a wait is for the record that came last before it.
  Event& fork_event(std::size_t index);

  Device& device;
  std::unique_ptr<Stream> main;
  std::unique_ptr<Stream> loader;
  std::vector<std::unique_ptr<Stream>> side_streams;
  std::unique_ptr<Stream> wgrads;
  std::vector<std::unique_ptr<Event>> fork_events;
  std::unique_ptr<CachingAllocator> allocator;
  /// What faults keep beyond its time; goes with the leg.
  std::vector<std::shared_ptr<void>> kept;
};

/// What the leg and its device hold, and with `process` what this process does, which takes
/// reading several files and a question to the driver. Nothing may run.
MemorySample sample_memory(const LegMemory& memory, PoolId observations, bool process);

/// Enters phases for the watchdog and sums up the host time spent in each.
class PhaseClock {
 public:
  /// `ended` is called with every phase that ends; it may be empty.
  PhaseClock(ProgressSink* progress, Device& device, std::function<void(Phase)> ended = {})
      : progress_(progress), device_(device), ended_(std::move(ended)) {}
  /// Throws what the device met in the phase that ends and has not reported yet; the phase then
  /// still counts as the current one. The ends of a leg, which tidy up, throw nothing.
  void enter(Phase phase);
  Phase current() const { return current_; }
  /// Milliseconds a phase, in the order in which phases were first entered.
  std::vector<PhaseTiming> timings() const { return timings_; }

 private:
  ProgressSink* progress_;
  Device& device_;
  std::function<void(Phase)> ended_;
  Phase current_ = Phase::idle;
  std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
  std::vector<PhaseTiming> timings_;
};

class ParameterGather;

/// What every part of a leg shares while it runs.
struct LegContext {
  const matrix::Cell& cell;
  const LegRequest& request;
  const LegEnvironment& environment;
  const CapturePlan& plan;
  LegMemory& memory;
  RngState rng;
  Recorder& recorder;
  PhaseClock& clock;
  LegRecord& record;
  LaunchLedger* launches = nullptr;   ///< null where launches concern no other rank
  ParameterGather* gather = nullptr;  ///< null until the leg's iteration has one
  Stream* side = nullptr;   ///< the current stream where it is not the main one, see StreamScope
  TensorView loss_scale{};  ///< in device memory; invalid where the loss is not scaled
  /// What passes through layers change beside gradients and the random state. Extra passes put it
  /// back.
  std::vector<TensorView> model_state{};

  Device& device() const { return environment.device; }
  /// The stream on which layers run.
  Stream& stream() const { return side != nullptr ? *side : *memory.main; }
  CachingAllocator& allocator() const { return *memory.allocator; }
  /// Type of weights and activations.
  DType model_type() const { return workloads::model_type(cell); }
  /// Hidden states of so many tokens on this rank: [rows, hidden].
  Shape hidden_shape(std::int64_t tokens) const {
    const bool shared = cell.config.sequence_parallel;
    return {shared ? tokens / cell.config.tensor_model_parallel_size : tokens,
            cell.config.hidden_size};
  }
  /// Those of one micro-batch.
  Shape hidden_shape() const {
    return hidden_shape(std::int64_t{cell.config.micro_batch_size} * cell.config.seq_length);
  }
  /// See LaunchLedger::agree.
  void agree_on_launch(const LaunchIntent& intent) const {
    if (launches != nullptr) launches->agree(intent);
  }
  /// See LaunchLedger::agree_on_layer.
  void agree_on_layer(const LaunchIntent& intent) const {
    if (launches != nullptr) launches->agree_on_layer(intent);
  }
  /// Where the leg is to return at this point, begins its teardown and throws EarlyReturnError.
  void pass(ReturnPoint point) const;
  bool fault(Fault fault) const { return environment.faults.is_on(fault); }
  bool sabotage(Sabotage sabotage) const { return environment.sabotage == sabotage; }
};

/// Makes a side stream the current one of a leg while it lives. Its work starts after what the main
/// stream was given before.
class StreamScope {
 public:
  StreamScope(LegContext& context, Stream& stream);
  ~StreamScope();
  StreamScope(const StreamScope&) = delete;
  StreamScope& operator=(const StreamScope&) = delete;

  /// Orders later work of the main stream after the side stream's.
  void join();

 private:
  LegContext& context_;
  Stream& stream_;
};

}  // namespace cgconform::workloads

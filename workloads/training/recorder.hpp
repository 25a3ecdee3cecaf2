#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "workloads/allocator/caching_allocator.hpp"
#include "workloads/layers/layer.hpp"
#include "workloads/ops/verification.hpp"
#include "workloads/training/leg_record.hpp"

namespace cgconform::workloads {

/// When in its life a value in a slot is hashed.
enum class SlotMoment : std::uint8_t { production, use };

/// A tensor that is observed at every step: its place, whose step is filled in, and its memory.
struct ObservedPart {
  TensorLocation where;
  TensorView value;
};

/// The static slots one captured graph writes for the recorder, collected after every replay.
struct GraphSlots {
  struct Observed {
    ObservedQuantity quantity = ObservedQuantity::layer_output;
    TensorLocation where;
    Buffer slot;
  };
  struct Hashed {
    SlotKind kind = SlotKind::output;
    SlotMoment moment = SlotMoment::production;
    TensorLocation where;
    Buffer cell;  ///< one uint64
  };
  std::vector<Observed> observed;
  std::vector<Hashed> hashed;
  Buffer canary;  ///< zero; becomes the cell of the first hash
};

/// Collects what a leg shows: snapshots of tensors and hashes of slots, both taken by device work
/// in stream order without host synchronisation. While a graph is captured the work is captured too
/// and writes static slots of that graph instead.
class Recorder {
 public:
  Recorder(CachingAllocator& allocator, Stream& stream, bool instrumented);

  bool instrumented() const { return instrumented_; }
  bool capturing() const { return slots_ != nullptr; }

  /// Snapshots `value`. In a capture only losses are kept, unless the leg is instrumented.
  void observe(ObservedQuantity quantity, const TensorLocation& where, const TensorView& value);
  /// Snapshots tensors that all lie in one of `chunks`, chunk by chunk. Outside of captures only.
  void observe_parts(ObservedQuantity quantity, std::int32_t step,
                     std::span<const ObservedPart> parts, std::span<const TensorView> chunks);
  /// Between these calls, snapshots are not filled one by one: the second fills them all at once.
  /// What is observed must stay as it is meanwhile.
  void gather_copies() { gathers_ = true; }
  void make_copies();
  /// Hashes `value`; does nothing where the leg is not instrumented.
  void hash(SlotKind kind, SlotMoment moment, const TensorLocation& where, const TensorView& value);

  /// Before a capture: makes the cell that must still be zero when the capture has ended.
  void prepare_graph(GraphSlots& slots);
  /// True where work of the graph has already written its first cell. Waits for the device.
  bool has_run(const GraphSlots& slots);
  /// Between these calls, observations and hashes become nodes of the graph being captured.
  void begin_graph(GraphSlots& slots, PoolId pool);
  void end_graph();
  /// The stream on which tensors are produced from now on.
  void use(Stream& stream) { stream_ = &stream; }
  /// While muted nothing is recorded: the extra runs inside a graph's creation.
  /// Calls with true and false pair up and may nest.
  void mute(bool muted) { muted_ += muted ? 1 : -1; }
  /// Where snapshots and hashes lie, apart from the memory of what is observed.
  PoolId pool() const { return pool_; }

  /// After a replay: takes over what the graph wrote. A `microbatch` below 0 keeps that of the
  /// capture; otherwise it replaces it.
  void collect(const GraphSlots& slots, std::int32_t step, std::int32_t microbatch);

  /// Waits for the device and reads the routing among the observations.
  std::vector<RoutingRecord> read_routing() const;
  std::vector<Observation> take_observations();
  /// Waits for the device, pairs every use with the production before it, and returns the pairs.
  std::vector<SlotRecord> take_slot_records();

 private:
  struct HashEntry {
    SlotKind kind = SlotKind::output;
    SlotMoment moment = SlotMoment::production;
    TensorLocation where;
  };
  void copy(const TensorView& snapshot, const TensorView& value, const std::string& name);
  /// The device cell of the next entry of the hash log.
  TensorView append(const HashEntry& entry);

  CachingAllocator& allocator_;
  Stream* stream_;
  bool instrumented_;
  PoolId pool_;
  int muted_ = 0;
  bool gathers_ = false;
  std::vector<CopyPair> gathered_;
  GraphSlots* slots_ = nullptr;
  PoolId slots_pool_ = default_pool;
  std::vector<Observation> observations_;
  std::vector<HashEntry> hash_log_;
  std::vector<Buffer> hash_chunks_;
};

/// Recording into a graph's slots while a scope lasts.
class GraphRecording {
 public:
  GraphRecording(Recorder& recorder, GraphSlots& slots, PoolId pool) : recorder_(recorder) {
    recorder_.begin_graph(slots, pool);
  }
  ~GraphRecording() { recorder_.end_graph(); }
  GraphRecording(const GraphRecording&) = delete;
  GraphRecording& operator=(const GraphRecording&) = delete;

 private:
  Recorder& recorder_;
};

/// Records the tensors a layer offers under their own names; dropout masks as such.
class RecordingTap final : public TensorTap {
 public:
  RecordingTap(Recorder& recorder, TensorLocation where)
      : recorder_(recorder), where_(std::move(where)) {}
  void tap(std::string_view tensor, const TensorView& value) override;

 private:
  Recorder& recorder_;
  TensorLocation where_;
};

}  // namespace cgconform::workloads

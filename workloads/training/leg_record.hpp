#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "workloads/allocator/caching_allocator.hpp"
#include "workloads/device/device.hpp"
#include "workloads/device/graph.hpp"
#include "workloads/device/progress.hpp"
#include "workloads/training/memory_record.hpp"
#include "workloads/training/tensor_name.hpp"

namespace cgconform::workloads {

/// Where in a leg a tensor was seen. -1 where the part does not apply.
struct TensorLocation {
  std::int32_t step = -1;
  std::int32_t microbatch = -1;
  std::int32_t layer = -1;
  bool validation = false;
  TensorName tensor;  ///< "output", "grad_input", "loss", "weight:mlp.fc1", "main_grad:...", ...
  friend bool operator==(const TensorLocation&, const TensorLocation&) = default;
};

/// Stage of a step at which an observation was made, in execution order.
enum class ObservedQuantity : std::uint8_t {
  input_batch,  ///< what the data loader gave
  dropout_mask,
  layer_output,
  loss,
  layer_grad_input,
  main_grad,  ///< accumulated parameter gradient after the last micro-batch
  weight,     ///< parameter after the optimizer step
  optimizer_state,
  rng_state,
  recomputed_mask,  ///< dropout mask that a backward has drawn again
  training_state,   ///< learning rate and counters beside the optimizer's own state
  routing,          ///< which experts tokens went to, how many, and how many were dropped
};

/// What of a layer a graph or an execution runs, in messages.
constexpr std::string_view pass_name(bool forward, bool wgrad) {
  if (forward) return "forward";
  return wgrad ? "weight gradients" : "backward";
}

/// A copy of a tensor in device memory. Several may lie in one buffer, which they keep.
class Snapshot {
 public:
  Snapshot() = default;
  Snapshot(Buffer buffer)
      : buffer_(std::make_shared<const Buffer>(std::move(buffer))), view_(buffer_->view()) {}
  Snapshot(std::shared_ptr<const Buffer> buffer, const TensorView& view)
      : buffer_(std::move(buffer)), view_(view) {}
  const TensorView& view() const { return view_; }
  /// All of the buffer; invalid where the snapshot is the whole of it.
  TensorView whole() const {
    const bool shared = buffer_ && buffer_->view().bytes() != view_.bytes();
    return shared ? buffer_->view() : TensorView{};
  }

 private:
  std::shared_ptr<const Buffer> buffer_;
  TensorView view_;
};

/// A snapshot in device memory; compared on the device.
struct Observation {
  ObservedQuantity quantity = ObservedQuantity::layer_output;
  TensorLocation where;
  Snapshot snapshot;
};

/// The numbers of a routing observation on the host.
struct RoutingRecord {
  TensorLocation where;  ///< "routing:load", ...
  std::vector<std::int32_t> values;
};

/// Times of one captured graph in milliseconds; setup and launches apart.
struct GraphTimes {
  double capture = 0.0;      ///< host, from the beginning of the capture to its end
  double instantiate = 0.0;  ///< host
  double upload = -1.0;      ///< host, until the device has the graph; -1 where it was not uploaded
  /// Device, of every launch in order in timed legs, and of the first alone in others; empty in
  /// legs whose instruments wait around launches.
  std::vector<double> launches;
};

/// One captured graph of a leg.
struct GraphRecord {
  std::string name;   ///< "layer 1 forward microbatch 0", "iteration training", ...
  std::string scope;  ///< module scope or "layer" or "full_iteration"
  std::int32_t layer = -1;
  std::int32_t microbatch = -1;
  bool forward = true;
  bool wgrad = false;               ///< of the weight gradients that a backward leaves for later
  std::int32_t capture_order = -1;  ///< position among this leg's captures
  std::int32_t capture_step = -1;   ///< training step at whose end, or in which, it was captured
  std::vector<GraphNode> nodes;
  /// The static slot outside of graph memory that a forward's input is copied to; null where there
  /// is none.
  const void* input = nullptr;
  std::uint64_t launches = 0;       ///< from GraphExec::launches(), the device's own count
  std::int64_t pool_bytes = 0;      ///< of its pool that its nodes read or write
  std::int32_t destroy_order = -1;  ///< position in the teardown; -1 where never destroyed
  GraphTimes times;
  GraphSize size;   ///< as the device counts
  std::string dot;  ///< the device's dump; instrumented legs only
};

/// What happened inside one capture window.
struct CaptureAudit {
  std::string graph;
  std::uint64_t calls = 0;
  ErrorCategory first_failure = ErrorCategory::success;
  std::string first_failed_call;
  std::uint64_t pageable_uploads = 0;  ///< copies of host memory that nothing pins: must be 0
  ErrorCategory end_status = ErrorCategory::success;
  std::uint64_t eager_launches_inside = 0;   ///< device counter delta: must be 0
  std::uint64_t graph_nodes_run_inside = 0;  ///< must be 0
  bool nodes_ran_inside = false;  ///< seen in what the first recording node writes; must be false
  std::uint64_t hash_before = 0;  ///< over parameters, gradients, RNG state and static outputs
  std::uint64_t hash_after = 0;
  std::string changed;  ///< first of these tensors that a capture has changed; empty: none
  std::uint64_t eager_body_launches = 0;  ///< launches of the same body when it last ran eagerly
};

/// One execution of a layer or of the iteration, by replay or eagerly.
struct ExecutionRecord {
  std::int32_t step = -1;
  std::int32_t microbatch = -1;
  std::int32_t layer = -1;  ///< -1 for a whole iteration
  bool forward = true;
  bool wgrad = false;  ///< weight gradients that a backward has left; no forward then
  bool validation = false;
  bool replayed = false;
  std::int32_t graph = -1;  ///< index into LegRecord::graphs where replayed
  /// Device counter deltas of this execution. The device counts launches and nodes as they run:
  /// both are 0 where the leg does not synchronise: in replays and eager legs without instruments.
  std::uint64_t eager_launches = 0;
  std::uint64_t graph_launches = 0;
  std::uint64_t graph_nodes_run = 0;
  std::uint64_t host_executions = 0;  ///< how often host code of the body ran; 0 on replay
  std::string scope;                  ///< module of the layer; empty for the whole layer
  std::uint64_t hooks = 0;            ///< pre-forward hooks run just before this replay
};

/// An operand of a graph node that was not live, or not of the generation seen at capture, when the
/// graph was about to be launched.
struct AddressFinding {
  std::int32_t graph = -1;
  std::int32_t node = -1;
  std::string op;
  std::string operand;
  std::int32_t step = -1;
  AddressState state = AddressState::unknown;
  std::uint64_t captured_generation = 0;
  std::uint64_t current_generation = 0;
  std::string label;   ///< of the block that now owns the address
  std::string reason;  ///< what is wrong with it, in words
};

/// Two operands of one graph that touch the same bytes, at least one writing, without a path.
struct EdgeFinding {
  std::int32_t graph = -1;
  std::int32_t producer = -1;
  std::int32_t consumer = -1;
  std::string operand;
  std::string labels;
};

enum class SlotKind : std::uint8_t { static_input, output, saved_activation, weight_grad };

/// A value in a graph-owned slot, hashed where it was produced and again where it was used.
struct SlotRecord {
  SlotKind kind = SlotKind::output;
  TensorLocation where;
  std::uint64_t hash_at_production = 0;
  std::uint64_t hash_at_use = 0;
};

/// One launch of a bucket's reduction over replicas, as host code made it: at replay none is.
struct ReductionRecord {
  std::int32_t step = -1;
  std::int32_t bucket = -1;
  std::vector<std::string> parameters;  ///< in the order they lie in the bucket
  std::vector<std::int32_t> layers;     ///< of the parameters; -1 outside of layers
  std::size_t executions_before = 0;    ///< executions of the leg that were enqueued before
};

/// One launch of a bucket's gather of parameters over replicas, as host code made it.
struct GatherRecord {
  std::int32_t step = -1;
  std::int32_t bucket = -1;
  bool captured = false;              ///< while a graph was captured: it ran nothing then
  std::vector<std::int32_t> layers;   ///< of the parameters; -1 outside of layers
  std::size_t executions_before = 0;  ///< executions of the leg that were enqueued before
};

/// What the ranks of the gang agreed on before launches, see LaunchLedger.
struct LaunchAgreements {
  std::uint64_t eager = 0;     ///< schedule calls whose communication is eager
  std::uint64_t captures = 0;  ///< schedule calls that capture communication
  std::uint64_t replays = 0;   ///< launches of graphs that communicate
  double slowest_milliseconds = 0.0;
};

/// The asynchronous state of a communicator over all ends of one phase.
struct CommunicatorPoll {
  std::string communicator;
  Phase phase = Phase::idle;
  std::uint64_t polls = 0;
  ErrorCategory first_error = ErrorCategory::success;
};

/// Times of the forwards and backwards of one training step in milliseconds, the reduction of their
/// gradients included.
struct StepTimes {
  std::int32_t step = -1;
  bool replayed = false;  ///< at least in part
  bool captured = false;  ///< graphs were made in it
  double host = 0.0;      ///< until everything was enqueued
  double device = 0.0;    ///< between events round it
};

struct PhaseTiming {
  Phase phase = Phase::idle;
  double milliseconds = 0.0;
};

/// Everything one leg left behind for the checks. Device snapshots stay valid until destruction.
struct LegRecord {
  LegRecord() = default;
  ~LegRecord() = default;
  LegRecord(const LegRecord&) = delete;
  LegRecord& operator=(const LegRecord&) = delete;
  LegRecord(LegRecord&&) noexcept = default;
  /// Gives the former snapshots back before the memory they lie in.
  LegRecord& operator=(LegRecord&& other) noexcept {
    if (this != &other) {
      std::destroy_at(this);
      std::construct_at(this, std::move(other));
    }
    return *this;
  }

  std::shared_ptr<void> memory;           ///< keeps the memory of the snapshots; destroyed last
  std::vector<Observation> observations;  ///< in execution order
  std::vector<GraphRecord> graphs;        ///< in capture order
  std::vector<CaptureAudit> captures;
  std::vector<ExecutionRecord> executions;  ///< in execution order
  std::vector<ReductionRecord> reductions;  ///< in the order they were launched
  std::vector<GatherRecord> gathers;        ///< in the order they were launched
  std::vector<AddressFinding> address_findings;
  std::vector<EdgeFinding> edge_findings;
  std::vector<SlotRecord> slots;
  std::vector<RoutingRecord> routing;  ///< in execution order; instrumented legs only
  std::vector<Block> damaged_guards;
  LaunchAgreements agreements;
  std::vector<CommunicatorPoll> polls;   ///< in the order in which phases first ended
  std::uint64_t guards_inspected = 0;    ///< bands, when `damaged_guards` was collected
  std::vector<Block> written_when_free;  ///< places whose poison was gone though nothing has them
  MemorySample memory_at_start;          ///< before the first step
  MemorySample memory_at_end;            ///< after the teardown, unused segments released
  std::vector<CycleRecord> cycles;       ///< in a leg of cycles
  TeardownRecord teardown;
  std::vector<PhaseTiming> timings;
  std::vector<StepTimes> steps;                 ///< of a timed leg
  std::map<std::string, PoolStatistics> pools;  ///< by pool name
  LaunchCounters totals;
  std::int64_t live_bytes_after_teardown = 0;  ///< graph pools, after graphs were destroyed
  std::string error;  ///< what ended the leg early; empty where it ran to its end
  ErrorCategory error_category = ErrorCategory::success;
  Phase error_phase = Phase::idle;
};

}  // namespace cgconform::workloads

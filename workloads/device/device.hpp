#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "workloads/allocator/segment_source.hpp"
#include "workloads/device/communicator.hpp"
#include "workloads/device/progress.hpp"
#include "workloads/device/resource_use.hpp"
#include "workloads/device/stream.hpp"

namespace cgconform::workloads {

struct DeviceProperties {
  std::string kind;  ///< "reference" or "cuda"
  std::string name;
  std::int32_t compute_capability = 90;  ///< times ten
  std::int64_t memory_bytes = 0;
  std::string uuid;          ///< "GPU-..."; empty on the reference device
  std::string pci_bus_id;    ///< "0000:1b:00.0"; empty on the reference device
  std::string host_cores;    ///< cores the process was bound to, near the device; empty for all
  std::int32_t driver = 0;   ///< newest CUDA version of the driver, as 13000
  std::int32_t runtime = 0;  ///< CUDA version of the runtime
  std::int32_t peers = 0;    ///< other devices this process sees that can access its memory
};

/// What the device itself counted since the last reset; not the workload's own opinion.
struct LaunchCounters {
  std::uint64_t eager_launches = 0;   ///< ops, copies, fills, collectives run outside graphs
  std::uint64_t captured_nodes = 0;   ///< nodes recorded by captures
  std::uint64_t graph_launches = 0;   ///< GraphExec::launch calls
  std::uint64_t graph_nodes_run = 0;  ///< nodes that graphs executed
  std::uint64_t failed_calls = 0;     ///< calls that threw
};

/// One device call as the device saw it: its name, label, and how it ended.
struct CallRecord {
  std::string_view call;
  std::string_view label;
  ErrorCategory category = ErrorCategory::success;
};
/// The call by which a stream reads pageable host memory; a captured one reads it at every replay.
constexpr std::string_view pageable_upload_call = "upload_pageable";
using CallObserver = std::function<void(const CallRecord&)>;

/// Where the workload runs. One per worker; not thread-safe unless a call says so.
class Device {
 public:
  virtual ~Device() = default;
  virtual const DeviceProperties& properties() const = 0;

  virtual std::unique_ptr<Stream> create_stream(std::string name,
                                                StreamKind kind = StreamKind::blocking) = 0;
  /// The legacy default stream: it synchronises with every blocking stream, and its use while one
  /// of them captures is stream_capture_implicit.
  virtual Stream& legacy_stream() = 0;
  virtual std::unique_ptr<Event> create_event(EventKind kind = EventKind::ordering) = 0;
  virtual std::unique_ptr<Communicator> create_communicator(CommunicatorOptions options) = 0;
  /// Segments that allocators carve blocks from.
  virtual SegmentSource& segment_source() = 0;
  /// Segments of which `unmap` makes every access a fault, for certain; where the source above
  /// promises that already, it is the same one.
  virtual SegmentSource& unmappable_source() { return segment_source(); }

  /// Blocks until all streams are idle; refused while any capture is active.
  virtual void synchronize() = 0;
  virtual LaunchCounters counters() const = 0;
  /// Blocks until `counters` speaks of everything enqueued so far; a device that counts at the call
  /// has nothing to wait for.
  virtual void settle_counters() { synchronize(); }
  virtual void reset_counters() = 0;
  /// What the device holds now. Where the caller waits for the device first, the figures are exact.
  virtual ResourceUse resource_use() const = 0;
  /// Bytes of the device that this process holds; on CUDA without NVML those of all processes. To
  /// ask NVML takes longer than to launch ten kernels.
  virtual std::int64_t used_bytes() const = 0;
  /// An object that graphs can retain: `released` runs once, on any thread and possibly later,
  /// after the caller and every graph and executable that retains the object have let go of it.
  virtual std::shared_ptr<void> create_user_object(std::function<void()> released) = 0;
  /// Called for every stream, event, graph, allocation and communicator call on the calling thread;
  /// an empty function switches it off. The base of the capture audit.
  virtual void set_call_observer(CallObserver observer) = 0;
  /// Work of `phase` begins: marks it for profilers. Throws the first error that the device or a
  /// communicator met in the phase that ends and that no call has reported.
  virtual void enter_phase(Phase /*phase*/) {}
  /// What the driver and the communication library said since the last call, a line each.
  virtual std::vector<std::string> take_notes() { return {}; }
  /// Figures of the device at this moment by name: clocks, memory in use by all processes.
  virtual std::map<std::string, double> measurements() const { return {}; }
  /// Seed of the random topological order in which graphs replay; ignored on CUDA.
  virtual void set_replay_seed(std::uint64_t seed) = 0;
};

struct ReferenceDeviceOptions {
  std::uint64_t replay_seed = 0;
  std::int64_t arena_bytes = std::int64_t{1} << 30;
  ProgressSink* progress = nullptr;  ///< may be null
};
std::unique_ptr<Device> create_reference_device(const ReferenceDeviceOptions& options);

}  // namespace cgconform::workloads

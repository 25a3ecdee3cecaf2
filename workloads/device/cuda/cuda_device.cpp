#include "workloads/device/cuda/cuda_device.hpp"

#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <nvtx3/nvToolsExt.h>

#include "workloads/allocator/segment_kind.hpp"
#include "workloads/allocator/straddling_source.hpp"
#include "workloads/device/cuda/cpu_affinity.hpp"
#include "workloads/device/cuda/cuda_error.hpp"
#include "workloads/device/cuda/cuda_segment_source.hpp"
#include "workloads/device/cuda/cuda_state.hpp"
#include "workloads/device/cuda/cuda_stream.hpp"
#include "workloads/device/cuda/cuda_user_object.hpp"
#include "workloads/device/cuda/nccl_communicator.hpp"
#include "workloads/device/cuda/nccl_log.hpp"
#include "workloads/device/cuda/nvml.hpp"
#include "workloads/device/cuda/stream_ordered_source.hpp"

namespace cgconform::workloads {

namespace cuda {
namespace {

/// Addresses are never handed out twice, so that a stale one always faults.
constexpr std::int64_t mapped_range_bytes = std::int64_t{1} << 40;

/// "GPU-" and the id's bytes in groups, as NVML and the driver's tools write it.
std::string uuid_text(const cudaUUID_t& uuid) {
  std::string text = "GPU";
  for (int i = 0; i < 16; ++i) {
    if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(uuid.bytes[i]));
  }
  return text;
}

std::int32_t count_peers(int ordinal) {
  int devices = 0;
  CGCONFORM_CUDA_TRY(cudaGetDeviceCount(&devices));
  std::int32_t peers = 0;
  for (int other = 0; other < devices; ++other) {
    int accessible = 0;
    if (other == ordinal) continue;
    CGCONFORM_CUDA_TRY(cudaDeviceCanAccessPeer(&accessible, ordinal, other));
    peers += accessible;
  }
  return peers;
}

/// A range of a profiler's timeline; phases of a worker follow each other.
void mark_phase(Phase phase) {
  nvtxRangePop();
  nvtxRangePushA(std::string(phase_name(phase)).c_str());
}

DeviceProperties query_properties(int ordinal) {
  cudaDeviceProp raw = {};
  CGCONFORM_CUDA_TRY(cudaGetDeviceProperties(&raw, ordinal));
  DeviceProperties properties;
  properties.kind = "cuda";
  properties.name = raw.name;
  properties.compute_capability = raw.major * 10 + raw.minor;
  properties.memory_bytes = static_cast<std::int64_t>(raw.totalGlobalMem);
  properties.uuid = uuid_text(raw.uuid);
  std::array<char, 32> bus_id{};
  CGCONFORM_CUDA_TRY(
      cudaDeviceGetPCIBusId(bus_id.data(), static_cast<int>(bus_id.size()), ordinal));
  properties.pci_bus_id = bus_id.data();
  CGCONFORM_CUDA_TRY(cudaDriverGetVersion(&properties.driver));
  CGCONFORM_CUDA_TRY(cudaRuntimeGetVersion(&properties.runtime));
  properties.peers = count_peers(ordinal);
  return properties;
}

/// What growth of memory is judged by.
enum class MemoryFigure : std::uint8_t {
  of_process,  ///< all that the driver holds for this process
  of_device,   ///< of all programs that use the GPU
  of_blocks,   ///< what this program allocates by itself
};

/// Chosen once: samples of two figures are no series. NVML's is trusted where it is seen to grow
/// with an allocation; it may not know this process by its number, as in some containers.
MemoryFigure choose_memory_figure(const NvmlDevice& nvml, bool shared) {
  constexpr std::int64_t probe_bytes = std::int64_t{64} << 20;
  const std::int64_t before = nvml.bytes_of_this_process();
  void* block = nullptr;
  if (before >= 0 && cudaMalloc(&block, probe_bytes) == cudaSuccess) {
    const std::int64_t after = nvml.bytes_of_this_process();
    CGCONFORM_CUDA_TRY(cudaFree(block));
    if (after - before >= probe_bytes) return MemoryFigure::of_process;
  }
  static_cast<void>(cudaGetLastError());
  return shared ? MemoryFigure::of_blocks : MemoryFigure::of_device;
}

class CudaDevice final : public Device, public SegmentSources {
 public:
  explicit CudaDevice(const CudaDeviceOptions& options)
      : state_(std::make_shared<CudaState>(options.progress)),
        ordinal_(options.ordinal),
        shared_(options.shared),
        chunk_bytes_(options.chunk_bytes) {
    CGCONFORM_CUDA_TRY(cudaSetDevice(options.ordinal));
    CGCONFORM_CUDA_TRY(cudaFree(nullptr));  // creates the context
    properties_ = query_properties(options.ordinal);
    properties_.host_cores = bind_near_pci_device(properties_.pci_bus_id);
    nvml_ = std::make_unique<NvmlDevice>(properties_.uuid);
    memory_figure_ = choose_memory_figure(*nvml_, shared_);
    source_ = std::make_unique<PlainSegmentSource>();
    algorithms_ = std::make_shared<GemmAlgorithms>();
    legacy_ = std::make_unique<CudaStream>(state_, algorithms_, LegacyStream{});
  }

  const DeviceProperties& properties() const override { return properties_; }
  std::unique_ptr<Stream> create_stream(std::string /*name*/, StreamKind kind) override {
    return std::make_unique<CudaStream>(state_, algorithms_, kind);
  }
  Stream& legacy_stream() override { return *legacy_; }
  std::unique_ptr<Event> create_event(EventKind kind) override {
    return std::make_unique<CudaEvent>(state_, kind);
  }
  std::unique_ptr<Communicator> create_communicator(CommunicatorOptions options) override {
    if (options.size > 1) return std::make_unique<NcclCommunicator>(state_, std::move(options));
    if (!alone_) {
      CommunicatorOptions parent;
      parent.name = "parent of communicators of one rank";
      alone_ = std::make_unique<NcclCommunicator>(state_, std::move(parent));
    }
    return alone_->copy(std::move(options));
  }
  SegmentSource& segment_source() override { return *source_; }
  SegmentSource& unmappable_source() override { return mapped_chunks(); }
  SegmentSource& segments(SegmentKind kind) override {
    switch (kind) {
      case SegmentKind::plain:
        break;
      case SegmentKind::expandable:
        if (!expandable_) {
          ExpandableSegmentSource& chunks = mapped_chunks();
          expandable_ = std::make_unique<StraddlingSource>(
              chunks, segment_kind_name(SegmentKind::expandable), chunks.chunk_bytes());
        }
        return *expandable_;
      case SegmentKind::stream_ordered:
        if (!stream_ordered_) {
          stream_ordered_ = std::make_unique<StreamOrderedSegmentSource>(ordinal_);
        }
        return *stream_ordered_;
    }
    return *source_;
  }
  void synchronize() override {
    state_->observed("device_synchronize", "", [this] { state_->await_device(); });
  }
  LaunchCounters counters() const override { return state_->counters(); }
  void settle_counters() override {}
  void reset_counters() override { state_->reset_counters(); }
  ResourceUse resource_use() const override {
    ResourceUse use = state_->live_objects().use();
    use.segment_bytes = source_->bytes_in_use();
    if (mapped_chunks_) use.segment_bytes += mapped_chunks_->bytes_in_use();
    if (stream_ordered_) use.segment_bytes += stream_ordered_->bytes_in_use();
    cuuint64_t reserved = 0;
    CGCONFORM_CUDA_TRY(
        cudaDeviceGetGraphMemAttribute(ordinal_, cudaGraphMemAttrReservedMemCurrent, &reserved));
    use.graph_bytes = static_cast<std::int64_t>(reserved);
    return use;
  }
  std::int64_t used_bytes() const override {
    switch (memory_figure_) {
      case MemoryFigure::of_process:
        return nvml_->bytes_of_this_process();
      case MemoryFigure::of_device: {
        std::size_t free = 0;
        std::size_t total = 0;
        CGCONFORM_CUDA_TRY(cudaMemGetInfo(&free, &total));
        return static_cast<std::int64_t>(total - free);
      }
      case MemoryFigure::of_blocks:
        break;
    }
    const ResourceUse use = resource_use();
    return use.segment_bytes + use.graph_bytes;
  }
  std::shared_ptr<void> create_user_object(std::function<void()> released) override {
    return state_->observed("user_object_create", "",
                            [&] { return make_user_object(state_, std::move(released)); });
  }
  void set_call_observer(CallObserver observer) override {
    state_->set_observer(std::move(observer));
  }
  void enter_phase(Phase phase) override {
    mark_phase(phase);
    CGCONFORM_CUDA_TRY(cudaPeekAtLastError());
    state_->throw_communicator_errors();
  }
  std::vector<std::string> take_notes() override {
    std::vector<std::string> notes;
    for (const std::string& warning : nccl_log_.take_warnings())
      notes.push_back("NCCL: " + warning);
    // The driver does not say whose Xid it is. Where others use the GPU, only a process whose
    // context has ended takes it for its own.
    const std::vector<std::uint64_t> xids = nvml_->take_xids();
    if (shared_ && !ends_context(category_of(cudaStreamQuery(cudaStreamLegacy)))) return notes;
    for (const std::uint64_t xid : xids) {
      notes.push_back(fmt::format("driver: Xid {} on {}", xid, properties_.pci_bus_id));
    }
    return notes;
  }
  std::map<std::string, double> measurements() const override {
    std::map<std::string, double> figures;
    const GpuState state = nvml_->state();
    const auto add = [&](const char* name, double value) {
      if (value >= 0.0) figures[name] = value;
    };
    add("gpu_used_bytes", static_cast<double>(state.used_bytes));
    // Missing where growth is judged by another figure.
    if (memory_figure_ == MemoryFigure::of_process) {
      add("gpu_process_bytes", static_cast<double>(nvml_->bytes_of_this_process()));
    }
    if (algorithms_->multiplies_fp8()) {
      add(fp8_products_figure.data(), static_cast<double>(algorithms_->fp8_products()));
    }
    add("gpu_sm_megahertz", state.sm_megahertz);
    add("gpu_memory_megahertz", state.memory_megahertz);
    add("gpu_temperature_celsius", state.temperature_celsius);
    return figures;
  }
  void set_replay_seed(std::uint64_t /*seed*/) override {}

 private:
  ExpandableSegmentSource& mapped_chunks() {
    if (!mapped_chunks_) {
      mapped_chunks_ =
          std::make_unique<ExpandableSegmentSource>(ordinal_, chunk_bytes_, mapped_range_bytes);
    }
    return *mapped_chunks_;
  }

  NcclLog nccl_log_;  // made before NCCL is used
  std::shared_ptr<CudaState> state_;
  DeviceProperties properties_;
  std::unique_ptr<NvmlDevice> nvml_;
  int ordinal_;
  bool shared_;
  MemoryFigure memory_figure_ = MemoryFigure::of_device;
  std::int64_t chunk_bytes_;
  std::unique_ptr<SegmentSource> source_;
  std::unique_ptr<ExpandableSegmentSource> mapped_chunks_;
  std::unique_ptr<StraddlingSource> expandable_;  ///< over the chunks
  std::unique_ptr<StreamOrderedSegmentSource> stream_ordered_;
  std::shared_ptr<GemmAlgorithms> algorithms_;
  std::unique_ptr<CudaStream> legacy_;
  /// To make a communicator takes NCCL half a second, to split one some milliseconds.
  std::unique_ptr<NcclCommunicator> alone_;
};

}  // namespace
}  // namespace cuda

std::unique_ptr<Device> create_cuda_device(const CudaDeviceOptions& options) {
  return std::make_unique<cuda::CudaDevice>(options);
}

int cuda_device_count() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) {
    cudaGetLastError();
    return 0;
  }
  return count;
}

std::string cuda_device_uuid(int ordinal) {
  cudaDeviceProp properties = {};
  if (cudaGetDeviceProperties(&properties, ordinal) != cudaSuccess) {
    cudaGetLastError();
    return {};
  }
  return cuda::uuid_text(properties.uuid);
}

}  // namespace cgconform::workloads

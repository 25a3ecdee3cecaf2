#include "workloads/device/cuda/cuda_device.hpp"

#include <utility>

#include <fmt/format.h>

#include "workloads/device/cuda/cuda_error.hpp"
#include "workloads/device/cuda/cuda_segment_source.hpp"
#include "workloads/device/cuda/cuda_state.hpp"
#include "workloads/device/cuda/cuda_stream.hpp"
#include "workloads/device/cuda/nccl_communicator.hpp"

namespace cgconform::workloads {

namespace cuda {
namespace {

DeviceProperties query_properties(int ordinal) {
  cudaDeviceProp raw = {};
  CGCONFORM_CUDA_TRY(cudaGetDeviceProperties(&raw, ordinal));
  DeviceProperties properties;
  properties.kind = "cuda";
  properties.name = raw.name;
  properties.compute_capability = raw.major * 10 + raw.minor;
  properties.memory_bytes = static_cast<std::int64_t>(raw.totalGlobalMem);
  return properties;
}

std::unique_ptr<SegmentSource> make_source(const CudaDeviceOptions& options) {
  if (options.segments == CudaSegments::plain) return std::make_unique<PlainSegmentSource>();
  return std::make_unique<ExpandableSegmentSource>(options.ordinal, options.chunk_bytes,
                                                   options.reserved_bytes);
}

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(const CudaDeviceOptions& options)
      : state_(std::make_shared<CudaState>(options.progress)) {
    CGCONFORM_CUDA_TRY(cudaSetDevice(options.ordinal));
    CGCONFORM_CUDA_TRY(cudaFree(nullptr));  // creates the context
    properties_ = query_properties(options.ordinal);
    source_ = make_source(options);
    algorithms_ = std::make_shared<GemmAlgorithms>();
    legacy_ = std::make_unique<CudaStream>(state_, algorithms_, LegacyStream{});
  }

  const DeviceProperties& properties() const override { return properties_; }
  std::unique_ptr<Stream> create_stream(std::string /*name*/, StreamKind kind) override {
    return std::make_unique<CudaStream>(state_, algorithms_, kind);
  }
  Stream& legacy_stream() override { return *legacy_; }
  std::unique_ptr<Event> create_event() override { return std::make_unique<CudaEvent>(state_); }
  std::unique_ptr<Communicator> create_communicator(CommunicatorOptions options) override {
    return std::make_unique<NcclCommunicator>(state_, std::move(options));
  }
  SegmentSource& segment_source() override { return *source_; }
  void synchronize() override {
    state_->observed("device_synchronize", "", [] { CGCONFORM_CUDA_TRY(cudaDeviceSynchronize()); });
  }
  LaunchCounters counters() const override { return state_->counters(); }
  void reset_counters() override { state_->reset_counters(); }
  void set_call_observer(CallObserver observer) override {
    state_->set_observer(std::move(observer));
  }
  void set_replay_seed(std::uint64_t /*seed*/) override {}

 private:
  std::shared_ptr<CudaState> state_;
  DeviceProperties properties_;
  std::unique_ptr<SegmentSource> source_;
  std::shared_ptr<GemmAlgorithms> algorithms_;
  std::unique_ptr<CudaStream> legacy_;
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

}  // namespace cgconform::workloads

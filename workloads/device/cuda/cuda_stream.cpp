#include "workloads/device/cuda/cuda_stream.hpp"

#include <utility>
#include <vector>

#include <fmt/format.h>

#include "workloads/device/cuda/cuda_error.hpp"
#include "workloads/device/cuda/cuda_graph.hpp"
#include "workloads/ops/cuda/launch_context.hpp"

namespace cgconform::workloads::cuda {

namespace {

constexpr std::string_view copy_name = "copy";
constexpr std::string_view fill_name = "fill";
constexpr std::string_view host_name = "host_function";

void run_host_function(void* function) {
  (*static_cast<std::function<void()>*>(function))();
}

void run_and_delete_host_function(void* function) {
  const std::unique_ptr<std::function<void()>> owned(static_cast<std::function<void()>*>(function));
  (*owned)();
}

cudaStreamCaptureMode runtime_mode(CaptureMode mode) {
  switch (mode) {
    case CaptureMode::global:
      return cudaStreamCaptureModeGlobal;
    case CaptureMode::thread_local_mode:
      return cudaStreamCaptureModeThreadLocal;
    case CaptureMode::relaxed:
      return cudaStreamCaptureModeRelaxed;
  }
  return cudaStreamCaptureModeGlobal;
}

CapturedCall writing_call(NodeKind kind, const std::string& label, std::string_view name,
                          const TensorView& destination) {
  return {kind, label, name, {{"destination", Access::write, destination}}};
}

std::size_t byte_count(const TensorView& tensor) {
  return static_cast<std::size_t>(tensor.bytes());
}

}  // namespace

CudaEvent::CudaEvent(std::shared_ptr<CudaState> state, EventKind kind) : state_(std::move(state)) {
  cudaEvent_t event = nullptr;
  const unsigned flags = kind == EventKind::timing ? cudaEventDefault : cudaEventDisableTiming;
  CGCONFORM_CUDA_TRY(cudaEventCreateWithFlags(&event, flags));
  event_.reset(event);
}

bool CudaEvent::query() {
  return state_->observed("event_query", "", [this] {
    const cudaError_t status = cudaEventQuery(event_.get());
    if (status == cudaErrorNotReady) {
      cudaGetLastError();
      return false;
    }
    CGCONFORM_CUDA_TRY(status);
    return true;
  });
}

void CudaEvent::synchronize() {
  state_->observed("event_synchronize", "", [this] {
    state_->await([this] { return has_ended(cudaEventQuery(event_.get())); },
                  [this] { CGCONFORM_CUDA_TRY(cudaEventSynchronize(event_.get())); });
  });
}

double CudaEvent::elapsed_since(Event& start) {
  float milliseconds = 0.0F;
  CGCONFORM_CUDA_TRY(cudaEventElapsedTime(
      &milliseconds, static_cast<CudaEvent&>(start).event_.get(), event_.get()));
  return milliseconds;
}

CudaStream::CudaStream(std::shared_ptr<CudaState> state, std::shared_ptr<GemmAlgorithms> algorithms,
                       StreamKind kind)
    : state_(std::move(state)),
      live_(std::make_unique<LiveObject>(state_->live_objects().streams)),
      flags_(kind == StreamKind::non_blocking ? cudaStreamNonBlocking : cudaStreamDefault),
      owned_(state_->take_stream(flags_)),
      gemm_(std::move(algorithms)),
      handle_(owned_.get()),
      id_(state_->next_stream_id()) {
  state_->add_stream(handle_);
}

CudaStream::~CudaStream() {
  note_end_of_capture();
  if (!owned_) return;
  state_->remove_stream(handle_);
  state_->give_back_stream(std::move(owned_), flags_);
}

CudaStream::CudaStream(std::shared_ptr<CudaState> state, std::shared_ptr<GemmAlgorithms> algorithms,
                       LegacyStream /*legacy*/)
    : state_(std::move(state)),
      gemm_(std::move(algorithms)),
      handle_(cudaStreamLegacy),
      id_(state_->next_stream_id()) {}

void CudaStream::record_call(const CaptureInfo& info, std::size_t first_node, std::size_t end_node,
                             CapturedCall call) {
  call.first_node = first_node;
  call.end_node = end_node;
  state_->capture_record(info)->calls.push_back(std::move(call));
  state_->count_captured_nodes(1);
}

void CudaStream::launch(const OpCall& call) {
  state_->observed(call.op->name, call.label, [this, &call] {
    if (call.op->cuda == nullptr) {
      throw DeviceError(ErrorCategory::not_supported, std::string(call.op->name),
                        fmt::format("op {} has no CUDA kernel ({})", call.op->name, call.label));
    }
    recorded(
        [&call] {
          return CapturedCall{NodeKind::kernel, call.label, call.op->name, call.operands};
        },
        [this, &call] {
          call.op->cuda(call, LaunchContext{handle_, &gemm_});
          CGCONFORM_CUDA_TRY(cudaGetLastError());
        });
  });
}

void CudaStream::copy(const TensorView& destination, const TensorView& source, std::string label) {
  state_->observed(copy_name, label, [&] {
    recorded(
        [&] {
          return CapturedCall{
              NodeKind::copy,
              label,
              copy_name,
              {{"destination", Access::write, destination}, {"source", Access::read, source}}};
        },
        [&] {
          CGCONFORM_CUDA_TRY(cudaMemcpyAsync(destination.data, source.data, byte_count(destination),
                                             cudaMemcpyDeviceToDevice, handle_));
        });
  });
}

void CudaStream::fill(const TensorView& destination, std::uint8_t byte, std::string label) {
  state_->observed(fill_name, label, [&] {
    recorded([&] { return writing_call(NodeKind::fill, label, fill_name, destination); },
             [&] {
               CGCONFORM_CUDA_TRY(
                   cudaMemsetAsync(destination.data, byte, byte_count(destination), handle_));
             });
  });
}

void CudaStream::upload(const TensorView& destination, const void* host, bool pinned,
                        std::string label) {
  state_->observed(pinned ? "upload_pinned" : pageable_upload_call, label, [&] {
    recorded([&] { return writing_call(NodeKind::copy, label, "upload", destination); },
             [&] {
               CGCONFORM_CUDA_TRY(cudaMemcpyAsync(destination.data, host, byte_count(destination),
                                                  cudaMemcpyHostToDevice, handle_));
             });
  });
}

void CudaStream::download(void* host, const TensorView& source) {
  state_->observed("download", "", [&] {
    CGCONFORM_CUDA_TRY(
        cudaMemcpyAsync(host, source.data, byte_count(source), cudaMemcpyDeviceToHost, handle_));
    await_end();
  });
}

void CudaStream::host_function(std::function<void()> function, std::string label) {
  state_->observed(host_name, label, [&] {
    recorded(
        [&] {
          return CapturedCall{NodeKind::host, label, host_name, {}};
        },
        [&] {
          const CaptureInfo info = capture_info(handle_);
          if (info.status == cudaStreamCaptureStatusActive) {
            const std::shared_ptr<CaptureRecord> record = state_->capture_record(info);
            auto kept = std::make_shared<std::function<void()>>(std::move(function));
            record->kept_alive.push_back(kept);
            CGCONFORM_CUDA_TRY(cudaLaunchHostFunc(handle_, run_host_function, kept.get()));
          } else {
            auto owned = std::make_unique<std::function<void()>>(std::move(function));
            CGCONFORM_CUDA_TRY(
                cudaLaunchHostFunc(handle_, run_and_delete_host_function, owned.get()));
            static_cast<void>(owned.release());
          }
        });
  });
}

void CudaStream::record(Event& event) {
  state_->observed("event_record", "", [&] {
    CGCONFORM_CUDA_TRY(cudaEventRecord(static_cast<CudaEvent&>(event).handle(), handle_));
  });
}

void CudaStream::wait(Event& event) {
  state_->observed("stream_wait_event", "", [&] {
    CGCONFORM_CUDA_TRY(cudaStreamWaitEvent(handle_, static_cast<CudaEvent&>(event).handle(), 0));
  });
}

void CudaStream::synchronize() {
  state_->observed("stream_synchronize", "", [this] { await_end(); });
}

void CudaStream::await_end() {
  // Where the stream captures, the plain call gives the error that belongs to it.
  const bool captures = state_->captures() && capture_status() != CaptureStatus::none;
  state_->await([&] { return captures || has_ended(cudaStreamQuery(handle_)); },
                [this] { CGCONFORM_CUDA_TRY(cudaStreamSynchronize(handle_)); });
}

bool CudaStream::query() {
  return state_->observed("stream_query", "", [this] {
    const cudaError_t status = cudaStreamQuery(handle_);
    if (status == cudaErrorNotReady) {
      cudaGetLastError();
      return false;
    }
    CGCONFORM_CUDA_TRY(status);
    return true;
  });
}

void CudaStream::begin_capture(CaptureMode mode) {
  state_->observed("begin_capture", "", [this, mode] {
    CGCONFORM_CUDA_TRY(cudaStreamBeginCapture(handle_, runtime_mode(mode)));
    began_capture_ = true;
    state_->capture_began();
  });
}

void CudaStream::note_end_of_capture() {
  if (std::exchange(began_capture_, false)) state_->capture_ended();
}

std::unique_ptr<Graph> CudaStream::end_capture() {
  return state_->observed("end_capture", "", [this]() -> std::unique_ptr<Graph> {
    const CaptureInfo info = capture_info(handle_);
    const std::shared_ptr<CaptureRecord> record = state_->take_capture_record(info.id);
    cudaGraph_t graph = nullptr;
    const cudaError_t status = cudaStreamEndCapture(handle_, &graph);
    // Refused from another thread or on another stream, the capture goes on.
    if (capture_status() == CaptureStatus::none) note_end_of_capture();
    CGCONFORM_CUDA_TRY(status);
    return std::make_unique<CudaGraph>(state_, GraphHandle(graph), record);
  });
}

CaptureStatus CudaStream::capture_status() const {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  if (cudaStreamIsCapturing(handle_, &status) != cudaSuccess) {
    cudaGetLastError();
    return CaptureStatus::invalidated;
  }
  switch (status) {
    case cudaStreamCaptureStatusActive:
      return CaptureStatus::active;
    case cudaStreamCaptureStatusInvalidated:
      return CaptureStatus::invalidated;
    default:
      return CaptureStatus::none;
  }
}

}  // namespace cgconform::workloads::cuda

#include "workloads/device/cuda/cuda_state.hpp"

#include <algorithm>
#include <thread>

#include <fmt/format.h>

#include "workloads/device/cuda/cuda_error.hpp"

namespace cgconform::workloads::cuda {

namespace {

using Clock = std::chrono::steady_clock;

/// Kernels of an aborted communicator leave their waiting loops within moments.
constexpr std::chrono::seconds abort_deadline{5};

/// Looks at short intervals first, so that short work is not waited for any longer than it takes.
class Backoff {
 public:
  void pause() {
    if (rounds_++ < spinning_rounds) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(interval);
    }
  }

 private:
  static constexpr int spinning_rounds = 2000;
  static constexpr std::chrono::microseconds interval{100};
  int rounds_ = 0;
};

bool ends_before(Clock::time_point deadline, const std::function<bool()>& ended) {
  Backoff backoff;
  while (!ended()) {
    if (Clock::now() > deadline) return false;
    backoff.pause();
  }
  return true;
}

}  // namespace

StreamHandle CudaState::take_stream(unsigned flags) {
  {
    const std::lock_guard lock(streams_mutex_);
    if (auto idle = idle_streams_.extract(flags)) return std::move(idle.mapped());
  }
  cudaStream_t stream = nullptr;
  CGCONFORM_CUDA_TRY(cudaStreamCreateWithFlags(&stream, flags));
  return StreamHandle(stream);
}

void CudaState::give_back_stream(StreamHandle stream, unsigned flags) {
  // To ask while something captures could break the capture.
  if (captures()) return;
  if (cudaStreamQuery(stream.get()) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return;
  }
  const std::lock_guard lock(streams_mutex_);
  idle_streams_.emplace(flags, std::move(stream));
}

void CudaState::add_stream(cudaStream_t stream) {
  const std::lock_guard lock(streams_mutex_);
  streams_.insert(stream);
}

void CudaState::remove_stream(cudaStream_t stream) {
  const std::lock_guard lock(streams_mutex_);
  streams_.erase(stream);
}

void CudaState::await_device() {
  const auto idle = [this] {
    const std::lock_guard lock(streams_mutex_);
    return std::all_of(streams_.begin(), streams_.end(),
                       [](cudaStream_t stream) { return has_ended(cudaStreamQuery(stream)); });
  };
  await(idle, [] { CGCONFORM_CUDA_TRY(cudaDeviceSynchronize()); });
}

void CudaState::watch(const std::shared_ptr<CommunicatorLink>& communicator) {
  const std::lock_guard lock(communicators_mutex_);
  std::erase_if(communicators_, [](const auto& known) { return known.expired(); });
  communicators_.push_back(communicator);
}

std::vector<std::shared_ptr<CommunicatorLink>> CudaState::live_communicators() const {
  const std::lock_guard lock(communicators_mutex_);
  std::vector<std::shared_ptr<CommunicatorLink>> live;
  for (const auto& known : communicators_) {
    auto communicator = known.lock();
    if (communicator && !communicator->closed()) live.push_back(std::move(communicator));
  }
  return live;
}

void CudaState::throw_communicator_errors() const {
  for (const auto& communicator : live_communicators()) {
    const ErrorCategory error = communicator->async_error();
    if (error == ErrorCategory::success) continue;
    // Where the context has ended, its error is the cause.
    const cudaError_t context = cudaStreamQuery(cudaStreamLegacy);
    if (ends_context(category_of(context))) CGCONFORM_CUDA_TRY(context);
    throw DeviceError(
        error, "ncclCommGetAsyncError",
        fmt::format("communicator {}: {}", communicator->name(), ncclGetLastError(nullptr)));
  }
}

void CudaState::await(const std::function<bool()>& ended, const std::function<void()>& wait) {
  const auto communicators = live_communicators();
  if (communicators.empty()) {
    wait();
    return;
  }
  const auto shortest =
      std::min_element(communicators.begin(), communicators.end(),
                       [](const auto& a, const auto& b) { return a->timeout() < b->timeout(); });
  const std::chrono::milliseconds timeout = (*shortest)->timeout();
  const Clock::time_point deadline = Clock::now() + timeout;
  const auto abort_all = [&] {
    for (const auto& communicator : communicators) communicator->abort();
    // Whatever still hangs then is the supervisor's to end.
    ends_before(Clock::now() + abort_deadline, ended);
  };
  Backoff backoff;
  while (!ended()) {
    try {
      throw_communicator_errors();
    } catch (const DeviceError&) {
      abort_all();
      throw;
    }
    if (Clock::now() > deadline) {
      abort_all();
      throw DeviceError(ErrorCategory::communicator_timeout, "synchronize",
                        fmt::format("communicator {}: the device did not finish within {} ms; a "
                                    "peer is missing from a collective or message",
                                    (*shortest)->name(), timeout.count()));
    }
    backoff.pause();
  }
  wait();
}

LaunchCounters CudaState::counters() const {
  LaunchCounters counters;
  counters.eager_launches = eager_launches_;
  counters.captured_nodes = captured_nodes_;
  counters.graph_launches = graph_launches_;
  counters.graph_nodes_run = graph_nodes_run_;
  counters.failed_calls = failed_calls_;
  return counters;
}

void CudaState::reset_counters() {
  eager_launches_ = 0;
  captured_nodes_ = 0;
  graph_launches_ = 0;
  graph_nodes_run_ = 0;
  failed_calls_ = 0;
}

CaptureInfo capture_info(cudaStream_t stream) {
  CaptureInfo info;
  unsigned long long id = 0;
#if CUDART_VERSION >= 13000
  CGCONFORM_CUDA_TRY(
      cudaStreamGetCaptureInfo(stream, &info.status, &id, &info.graph, nullptr, nullptr, nullptr));
#else
  CGCONFORM_CUDA_TRY(
      cudaStreamGetCaptureInfo_v2(stream, &info.status, &id, &info.graph, nullptr, nullptr));
#endif
  info.id = id;
  return info;
}

std::size_t node_count(cudaGraph_t graph) {
  std::size_t count = 0;
  CGCONFORM_CUDA_TRY(cudaGraphGetNodes(graph, nullptr, &count));
  return count;
}

bool has_ended(cudaError_t status) {
  if (status != cudaErrorNotReady) return true;
  cudaGetLastError();
  return false;
}

std::shared_ptr<CaptureRecord> CudaState::capture_record(const CaptureInfo& info) {
  const std::lock_guard lock(captures_mutex_);
  std::shared_ptr<CaptureRecord>& record = captures_[info.id];
  if (!record) record = std::make_shared<CaptureRecord>();
  return record;
}

std::shared_ptr<CaptureRecord> CudaState::take_capture_record(std::uint64_t capture_id) {
  const std::lock_guard lock(captures_mutex_);
  const auto found = captures_.find(capture_id);
  if (found == captures_.end()) return std::make_shared<CaptureRecord>();
  std::shared_ptr<CaptureRecord> record = std::move(found->second);
  captures_.erase(found);
  return record;
}

}  // namespace cgconform::workloads::cuda

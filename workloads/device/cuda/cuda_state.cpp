#include "workloads/device/cuda/cuda_state.hpp"

#include "workloads/device/cuda/cuda_error.hpp"

namespace cgconform::workloads::cuda {

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

std::shared_ptr<CaptureRecord> CudaState::capture_record(cudaStream_t stream) {
  const CaptureInfo info = capture_info(stream);
  if (info.status != cudaStreamCaptureStatusActive) return nullptr;
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

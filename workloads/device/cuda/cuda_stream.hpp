#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "workloads/device/cuda/cuda_handles.hpp"
#include "workloads/device/cuda/cuda_state.hpp"
#include "workloads/device/stream.hpp"
#include "workloads/ops/cuda/gemm_engine.hpp"

namespace cgconform::workloads::cuda {

class CudaEvent final : public Event {
 public:
  CudaEvent(std::shared_ptr<CudaState> state, EventKind kind);
  bool query() override;
  void synchronize() override;
  double elapsed_since(Event& start) override;
  cudaEvent_t handle() const { return event_.get(); }

 private:
  std::shared_ptr<CudaState> state_;
  LiveObject live_{state_->live_objects().events};
  EventHandle event_;
};

/// Tells the constructor to wrap the legacy default stream.
struct LegacyStream {};

/// A CUDA stream. Calls made while it captures are remembered with the nodes they added.
class CudaStream final : public Stream {
 public:
  CudaStream(std::shared_ptr<CudaState> state, std::shared_ptr<GemmAlgorithms> algorithms,
             StreamKind kind);

  CudaStream(std::shared_ptr<CudaState> state, std::shared_ptr<GemmAlgorithms> algorithms,
             LegacyStream legacy);
  ~CudaStream() override;
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  std::uint64_t id() const override { return id_; }
  void launch(const OpCall& call) override;
  void copy(const TensorView& destination, const TensorView& source, std::string label) override;
  void fill(const TensorView& destination, std::uint8_t byte, std::string label) override;
  void upload(const TensorView& destination, const void* host, bool pinned,
              std::string label) override;
  void download(void* host, const TensorView& source) override;
  void host_function(std::function<void()> function, std::string label) override;
  void record(Event& event) override;
  void wait(Event& event) override;
  void synchronize() override;
  bool query() override;
  void begin_capture(CaptureMode mode) override;
  std::unique_ptr<Graph> end_capture() override;
  CaptureStatus capture_status() const override;

  cudaStream_t handle() const { return handle_; }
  CudaState& state() const { return *state_; }

  /// Runs `enqueue` and, where the stream captures, records that the nodes it added are those of
  /// what `describe` returns.
  template <typename Describe, typename Enqueue>
  void recorded(Describe&& describe, Enqueue&& enqueue) {
    const CaptureInfo before = state_->captures() ? capture_info(handle_) : CaptureInfo{};
    const bool captures = before.status == cudaStreamCaptureStatusActive;
    const std::size_t nodes_before = captures ? node_count(before.graph) : 0;
    enqueue();
    if (!captures) {
      state_->count_eager_launch();
      return;
    }
    const std::size_t nodes_after = node_count(before.graph);
    if (nodes_after > nodes_before) record_call(before, nodes_before, nodes_after, describe());
  }

 private:
  /// Blocks until the stream's work ended, watching the communicators.
  void await_end();
  void record_call(const CaptureInfo& info, std::size_t first_node, std::size_t end_node,
                   CapturedCall call);

  void note_end_of_capture();

  std::shared_ptr<CudaState> state_;
  std::unique_ptr<LiveObject> live_;  ///< null for the legacy stream
  unsigned flags_ = cudaStreamDefault;
  StreamHandle owned_;
  GemmEngine gemm_;
  cudaStream_t handle_ = nullptr;
  std::uint64_t id_ = 0;
  bool began_capture_ = false;
};

}  // namespace cgconform::workloads::cuda

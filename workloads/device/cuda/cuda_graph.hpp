#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "workloads/device/cuda/cuda_handles.hpp"
#include "workloads/device/cuda/cuda_state.hpp"
#include "workloads/device/graph.hpp"

namespace cgconform::workloads::cuda {

/// A captured CUDA graph. Dependencies are the runtime's own; each node stands for one call of the
/// capture with everything that call added, so that a captured body has as many nodes as its eager
/// run has launches. Nodes that no recorded call added stand for themselves, last.
class CudaGraph final : public Graph {
 public:
  CudaGraph(std::shared_ptr<CudaState> state, GraphHandle graph,
            std::shared_ptr<CaptureRecord> record);
  std::span<const GraphNode> nodes() const override { return nodes_; }
  std::unique_ptr<GraphExec> instantiate(const InstantiateOptions& options) override;
  using Graph::instantiate;
  std::unique_ptr<Graph> clone() const override;
  GraphCensus census() const override;
  std::string dot() const override;
  void retain(std::shared_ptr<void> user_object) override;

  cudaGraph_t handle() const { return graph_.get(); }
  const std::shared_ptr<CaptureRecord>& record() const { return record_; }

 private:
  CudaGraph(std::shared_ptr<CudaState> state, GraphHandle graph,
            std::shared_ptr<CaptureRecord> record, std::vector<GraphNode> nodes);

  std::shared_ptr<CudaState> state_;
  LiveObject live_;
  // Holds the communicators that the graph uses, and NCCL waits for its graphs when one ends: the
  // graph goes first.
  std::shared_ptr<CaptureRecord> record_;
  GraphHandle graph_;
  std::vector<GraphNode> nodes_;
};

class CudaGraphExec final : public GraphExec {
 public:
  CudaGraphExec(std::shared_ptr<CudaState> state, GraphExecHandle exec,
                std::shared_ptr<CaptureRecord> record, std::uint64_t nodes)
      : state_(std::move(state)),
        live_(state_->live_objects().executables),
        record_(std::move(record)),
        exec_(std::move(exec)),
        nodes_(nodes) {}
  void launch(Stream& stream) override;
  void upload(Stream& stream) override;
  std::uint64_t launches() const override { return launches_; }
  UpdateOutcome update(const Graph& graph) override;

  cudaGraphExec_t handle() const { return exec_.get(); }

 private:
  std::shared_ptr<CudaState> state_;
  LiveObject live_;
  std::shared_ptr<CaptureRecord> record_;  // outlives the executable, as above
  GraphExecHandle exec_;
  std::uint64_t nodes_ = 0;
  std::uint64_t launches_ = 0;
};

}  // namespace cgconform::workloads::cuda

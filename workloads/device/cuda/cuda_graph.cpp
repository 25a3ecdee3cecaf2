#include "workloads/device/cuda/cuda_graph.hpp"

#include <unordered_map>

#include "workloads/device/cuda/cuda_error.hpp"
#include "workloads/device/cuda/cuda_stream.hpp"

namespace cgconform::workloads::cuda {

namespace {

NodeKind kind_of(cudaGraphNode_t node) {
  cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
  CGCONFORM_CUDA_TRY(cudaGraphNodeGetType(node, &type));
  switch (type) {
    case cudaGraphNodeTypeKernel:
      return NodeKind::kernel;
    case cudaGraphNodeTypeMemcpy:
      return NodeKind::copy;
    case cudaGraphNodeTypeMemset:
      return NodeKind::fill;
    case cudaGraphNodeTypeHost:
      return NodeKind::host;
    default:
      return NodeKind::empty;
  }
}

std::vector<cudaGraphNode_t> node_handles(cudaGraph_t graph) {
  std::size_t count = node_count(graph);
  std::vector<cudaGraphNode_t> handles(count);
  CGCONFORM_CUDA_TRY(cudaGraphGetNodes(graph, handles.data(), &count));
  return handles;
}

/// Calls `visit(from, to)` for each edge.
template <typename Visit>
void for_each_edge(cudaGraph_t graph, Visit&& visit) {
  std::size_t count = 0;
#if CUDART_VERSION >= 13000
  CGCONFORM_CUDA_TRY(cudaGraphGetEdges(graph, nullptr, nullptr, nullptr, &count));
#else
  CGCONFORM_CUDA_TRY(cudaGraphGetEdges(graph, nullptr, nullptr, &count));
#endif
  std::vector<cudaGraphNode_t> from(count);
  std::vector<cudaGraphNode_t> to(count);
#if CUDART_VERSION >= 13000
  std::vector<cudaGraphEdgeData> data(count);
  CGCONFORM_CUDA_TRY(cudaGraphGetEdges(graph, from.data(), to.data(), data.data(), &count));
#else
  CGCONFORM_CUDA_TRY(cudaGraphGetEdges(graph, from.data(), to.data(), &count));
#endif
  for (std::size_t edge = 0; edge < count; ++edge) visit(from[edge], to[edge]);
}

}  // namespace

CudaGraph::CudaGraph(std::shared_ptr<CudaState> state, GraphHandle graph,
                     std::shared_ptr<CaptureRecord> record)
    : state_(std::move(state)), graph_(std::move(graph)), record_(std::move(record)) {
  const std::vector<cudaGraphNode_t> handles = node_handles(graph_.get());
  std::unordered_map<cudaGraphNode_t, std::int32_t> index_of;
  for (cudaGraphNode_t handle : handles) {
    index_of[handle] = static_cast<std::int32_t>(nodes_.size());
    GraphNode node;
    node.kind = kind_of(handle);
    const auto annotation = record_->annotations.find(handle);
    if (annotation != record_->annotations.end()) {
      if (annotation->second.kind == NodeKind::communication) node.kind = NodeKind::communication;
      node.label = annotation->second.label;
      node.op_name = annotation->second.op_name;
      node.operands = annotation->second.operands;
    }
    nodes_.push_back(std::move(node));
  }
  for_each_edge(graph_.get(), [&](cudaGraphNode_t from, cudaGraphNode_t to) {
    nodes_[static_cast<std::size_t>(index_of.at(to))].dependencies.push_back(index_of.at(from));
  });
}

std::unique_ptr<GraphExec> CudaGraph::instantiate() {
  return state_->observed("graph_instantiate", "", [this]() -> std::unique_ptr<GraphExec> {
    cudaGraphExec_t exec = nullptr;
    CGCONFORM_CUDA_TRY(cudaGraphInstantiate(&exec, graph_.get(), 0));
    return std::make_unique<CudaGraphExec>(state_, GraphExecHandle(exec), record_, nodes_.size());
  });
}

void CudaGraphExec::launch(Stream& stream) {
  state_->observed("graph_launch", "", [&] {
    CGCONFORM_CUDA_TRY(cudaGraphLaunch(exec_.get(), static_cast<CudaStream&>(stream).handle()));
    ++launches_;
    state_->count_graph_launch(nodes_);
  });
}

}  // namespace cgconform::workloads::cuda

#include "workloads/device/cuda/cuda_graph.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory_resource>
#include <string>
#include <unordered_map>

#include <unistd.h>

#include "workloads/device/cuda/cuda_error.hpp"
#include "workloads/device/cuda/cuda_stream.hpp"
#include "workloads/device/cuda/cuda_user_object.hpp"

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

/// CUDA's word for a node's kind, for the census.
const char* runtime_kind(cudaGraphNode_t node) {
  cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
  CGCONFORM_CUDA_TRY(cudaGraphNodeGetType(node, &type));
  switch (type) {
    case cudaGraphNodeTypeKernel:
      return "kernel";
    case cudaGraphNodeTypeMemcpy:
      return "memcpy";
    case cudaGraphNodeTypeMemset:
      return "memset";
    case cudaGraphNodeTypeHost:
      return "host";
    case cudaGraphNodeTypeGraph:
      return "child_graph";
    case cudaGraphNodeTypeWaitEvent:
      return "event_wait";
    case cudaGraphNodeTypeEventRecord:
      return "event_record";
    case cudaGraphNodeTypeMemAlloc:
      return "mem_alloc";
    case cudaGraphNodeTypeMemFree:
      return "mem_free";
    case cudaGraphNodeTypeEmpty:
      return "empty";
    default:
      return "other";
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

std::string update_result_text(cudaGraphExecUpdateResult result) {
  switch (result) {
    case cudaGraphExecUpdateErrorTopologyChanged:
      return "the nodes or edges differ";
    case cudaGraphExecUpdateErrorNodeTypeChanged:
      return "the kind of a node differs";
    case cudaGraphExecUpdateErrorFunctionChanged:
    case cudaGraphExecUpdateErrorUnsupportedFunctionChange:
      return "the function of a kernel node differs";
    case cudaGraphExecUpdateErrorParametersChanged:
      return "parameters differ that cannot be updated";
    case cudaGraphExecUpdateErrorNotSupported:
      return "a node does not support updates";
    case cudaGraphExecUpdateErrorAttributesChanged:
      return "the attributes of a node differ";
    default:
      return "refused without a reason";
  }
}

}  // namespace

CudaGraph::CudaGraph(std::shared_ptr<CudaState> state, GraphHandle graph,
                     std::shared_ptr<CaptureRecord> record)
    : state_(std::move(state)),
      live_(state_->live_objects().graphs),
      record_(std::move(record)),
      graph_(std::move(graph)) {
  const std::vector<cudaGraphNode_t> handles = node_handles(graph_.get());
  std::pmr::monotonic_buffer_resource memory;
  std::pmr::unordered_map<cudaGraphNode_t, std::int32_t> index_of(handles.size(), &memory);
  nodes_.reserve(record_->calls.size());
  for (CapturedCall& call : record_->calls) {
    for (std::size_t made = call.first_node; made < call.end_node; ++made) {
      index_of[handles.at(made)] = static_cast<std::int32_t>(nodes_.size());
    }
    GraphNode node;
    node.kind = call.kind;
    node.label = std::move(call.label);
    node.op_name = call.op_name;
    node.operands = std::move(call.operands);
    node.communicator = std::move(call.communicator);
    node.rank = call.rank;
    node.peer = call.peer;
    nodes_.push_back(std::move(node));
  }
  record_->calls.clear();
  for (cudaGraphNode_t handle : handles) {
    if (index_of.contains(handle)) continue;
    index_of[handle] = static_cast<std::int32_t>(nodes_.size());
    GraphNode node;
    node.kind = kind_of(handle);
    nodes_.push_back(std::move(node));
  }
  for_each_edge(graph_.get(), [&](cudaGraphNode_t from, cudaGraphNode_t to) {
    const std::int32_t producer = index_of.at(from);
    const std::int32_t consumer = index_of.at(to);
    std::vector<std::int32_t>& known = nodes_[static_cast<std::size_t>(consumer)].dependencies;
    const bool is_new = std::find(known.begin(), known.end(), producer) == known.end();
    if (producer != consumer && is_new) known.push_back(producer);
  });
}

std::string CudaGraph::dot() const {
  std::string path = (std::filesystem::temp_directory_path() / "cgconform-graph-XXXXXX").string();
  const int file = mkstemp(path.data());
  if (file < 0) {
    throw DeviceError(ErrorCategory::invalid_value, "graph_dot",
                      path + " cannot be created; set TMPDIR to a folder that can be written");
  }
  close(file);
  const cudaError_t status = cudaGraphDebugDotPrint(graph_.get(), path.c_str(), 0);
  std::ifstream dump(path);
  std::string text{std::istreambuf_iterator<char>(dump), {}};
  std::filesystem::remove(path);
  CGCONFORM_CUDA_TRY(status);
  return text;
}

CudaGraph::CudaGraph(std::shared_ptr<CudaState> state, GraphHandle graph,
                     std::shared_ptr<CaptureRecord> record, std::vector<GraphNode> nodes)
    : state_(std::move(state)),
      live_(state_->live_objects().graphs),
      record_(std::move(record)),
      graph_(std::move(graph)),
      nodes_(std::move(nodes)) {}

std::unique_ptr<GraphExec> CudaGraph::instantiate(const InstantiateOptions& options) {
  return state_->observed("graph_instantiate", "", [&]() -> std::unique_ptr<GraphExec> {
    unsigned long long flags = 0;
    if (options.auto_free_on_launch) flags |= cudaGraphInstantiateFlagAutoFreeOnLaunch;
    if (options.use_node_priority) flags |= cudaGraphInstantiateFlagUseNodePriority;
    cudaGraphExec_t exec = nullptr;
    CGCONFORM_CUDA_TRY(cudaGraphInstantiate(&exec, graph_.get(), flags));
    return std::make_unique<CudaGraphExec>(state_, GraphExecHandle(exec), record_, nodes_.size());
  });
}

std::unique_ptr<Graph> CudaGraph::clone() const {
  return state_->observed("graph_clone", "", [this]() -> std::unique_ptr<Graph> {
    cudaGraph_t copy = nullptr;
    CGCONFORM_CUDA_TRY(cudaGraphClone(&copy, graph_.get()));
    return std::unique_ptr<Graph>(new CudaGraph(state_, GraphHandle(copy), record_, nodes_));
  });
}

GraphCensus CudaGraph::census() const {
  GraphCensus census;
  for (cudaGraphNode_t node : node_handles(graph_.get())) ++census.nodes[runtime_kind(node)];
  for_each_edge(graph_.get(), [&](cudaGraphNode_t, cudaGraphNode_t) { ++census.edges; });
  return census;
}

UpdateOutcome CudaGraphExec::update(const Graph& graph) {
  return state_->observed("graph_update", "", [&]() -> UpdateOutcome {
    const auto& next = static_cast<const CudaGraph&>(graph);
    cudaGraphExecUpdateResultInfo info = {};
    const cudaError_t status = cudaGraphExecUpdate(exec_.get(), next.handle(), &info);
    if (status == cudaErrorGraphExecUpdateFailure) {
      cudaGetLastError();
      return {.updated = false, .reason = update_result_text(info.result)};
    }
    CGCONFORM_CUDA_TRY(status);
    record_ = next.record();
    return {.updated = true};
  });
}

void CudaGraphExec::upload(Stream& stream) {
  state_->observed("graph_upload", "", [&] {
    CGCONFORM_CUDA_TRY(cudaGraphUpload(exec_.get(), static_cast<CudaStream&>(stream).handle()));
  });
}

void CudaGraph::retain(std::shared_ptr<void> user_object) {
  state_->observed("graph_retain", "", [&] {
    CGCONFORM_CUDA_TRY(
        cudaGraphRetainUserObject(graph_.get(), user_object_handle(user_object), 1, 0));
  });
}

void CudaGraphExec::launch(Stream& stream) {
  state_->observed("graph_launch", "", [&] {
    record_->refuse_closed_communicators();
    CGCONFORM_CUDA_TRY(cudaGraphLaunch(exec_.get(), static_cast<CudaStream&>(stream).handle()));
    ++launches_;
    state_->count_graph_launch(nodes_);
  });
}

}  // namespace cgconform::workloads::cuda

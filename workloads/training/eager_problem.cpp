#include "workloads/training/eager_problem.hpp"

#include "workloads/capture/capture_plan.hpp"

namespace cgconform::workloads {

matrix::Cell eager_problem(const matrix::Cell& cell) {
  const matrix::TrainingConfig defaults;
  matrix::Cell problem = cell;
  problem.shape.steps = plan_capture(cell).training_steps;
  matrix::TrainingConfig& config = problem.config;
  config.cuda_graph_impl = matrix::CudaGraphImpl::none;
  config.cuda_graph_scope = defaults.cuda_graph_scope;
  config.cuda_graph_modules = defaults.cuda_graph_modules;
  config.enable_cuda_graph = defaults.enable_cuda_graph;
  config.external_cuda_graph = defaults.external_cuda_graph;
  config.cuda_graph_warmup_steps = defaults.cuda_graph_warmup_steps;
  config.cuda_graph_use_single_mempool = defaults.cuda_graph_use_single_mempool;
  config.optimizer_cuda_graph = defaults.optimizer_cuda_graph;
  // Graphs are held against backwards that add weight gradients at once.
  if (cell.config.cuda_graph_impl != matrix::CudaGraphImpl::none) {
    config.delay_wgrad_compute = defaults.delay_wgrad_compute;
  }
  problem.shape.graphed_layers = matrix::WorkloadShape{}.graphed_layers;
  problem.platform.graph_pool = matrix::PlatformSettings{}.graph_pool;
  return problem;
}

bool is_same_problem(const matrix::Cell& a, const matrix::Cell& b) {
  return a.config == b.config && a.shape == b.shape && a.model_kind == b.model_kind &&
         a.platform == b.platform;
}

}  // namespace cgconform::workloads

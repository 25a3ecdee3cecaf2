#include "workloads/capture/capture_plan.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "matrix/built_features.hpp"
#include "matrix/error.hpp"
#include "matrix/virtual_stages.hpp"

namespace cgconform::workloads {
namespace {

using matrix::CudaGraphImpl;
using matrix::CudaGraphModule;

constexpr std::array<std::pair<CudaGraphModule, std::string_view>, 6> module_names{{
    {CudaGraphModule::attn, "attn"},
    {CudaGraphModule::mlp, "mlp"},
    {CudaGraphModule::moe, "moe"},
    {CudaGraphModule::moe_router, "moe_router"},
    {CudaGraphModule::moe_preprocess, "moe_preprocess"},
    {CudaGraphModule::mamba, "mamba"},
}};

std::string scope_text(matrix::CudaGraphScope scope) {
  std::string text;
  for (const auto& [module, name] : module_names) {
    if (!scope.contains(module)) continue;
    if (!text.empty()) text += ',';
    text += name;
  }
  return text.empty() ? "layer" : text;
}

CaptureKind capture_kind(const matrix::TrainingConfig& config) {
  switch (config.cuda_graph_impl) {
    case CudaGraphImpl::none:
      return CaptureKind::none;
    case CudaGraphImpl::local:
      return config.cuda_graph_scope.contains(CudaGraphModule::full_iteration)
                 ? CaptureKind::full_iteration
                 : CaptureKind::local;
    case CudaGraphImpl::full_iteration:
      return CaptureKind::full_iteration;
    case CudaGraphImpl::transformer_engine:
      return CaptureKind::transformer_engine;
  }
  throw InternalError("capture plan: unknown cuda_graph_impl");
}

/// Modules of a dense layer that a scope of ahead-of-time callables selects.
std::vector<std::string> callable_modules(matrix::CudaGraphScope scope) {
  const bool all = scope.empty() || scope.contains(CudaGraphModule::full);
  std::vector<std::string> modules;
  if (all || scope.contains(CudaGraphModule::attn)) modules.emplace_back("attn");
  if (all || scope.contains(CudaGraphModule::mlp)) modules.emplace_back("mlp");
  return modules;
}

std::vector<bool> graphed_layers(const matrix::Cell& cell) {
  std::vector<bool> graphed;
  graphed.reserve(static_cast<std::size_t>(cell.config.num_layers));
  for (std::int32_t layer = 0; layer < cell.config.num_layers; ++layer) {
    graphed.push_back(matrix::is_graphed(cell, layer));
  }
  return graphed;
}

std::int32_t steps_needed(const CapturePlan& plan, std::int32_t eval_interval) {
  constexpr std::int32_t replays_after_capture = 2;
  switch (plan.kind) {
    case CaptureKind::none:
      return 1;
    case CaptureKind::local:
      // The optimizer's graph is captured by its own count of calls.
      return (plan.optimizer_graph ? std::max(plan.warmup_steps, 0) : 0) + 1 +
             replays_after_capture;
    case CaptureKind::transformer_engine:
      return std::max(plan.warmup_steps, 0) + 1 + replays_after_capture;
    case CaptureKind::full_iteration: {
      const std::int32_t warmup = std::max(plan.warmup_steps, 0);
      const std::int32_t training = warmup + 1 + replays_after_capture;
      const std::int32_t validation = eval_interval > 0 ? eval_interval * (warmup + 2) : 0;
      return std::max(training, validation);
    }
  }
  return 1;
}

}  // namespace

bool CapturePlan::captures_anything() const {
  if (kind == CaptureKind::local) {
    return std::find(captured_layers.begin(), captured_layers.end(), true) != captured_layers.end();
  }
  if (kind == CaptureKind::transformer_engine) {
    return !captured_modules.empty() && warmup_steps >= 0;
  }
  return kind == CaptureKind::full_iteration;
}

CapturePlan plan_capture(const matrix::Cell& cell) {
  const matrix::TrainingConfig& config = cell.config;
  const matrix::Feature* missing = matrix::missing_feature(cell, matrix::TargetDevice::reference);
  if (missing != nullptr || cell.model_kind != matrix::ModelKind::dense) {
    throw Error(fmt::format("the workload cannot run this cell: {} is not built; leave it out",
                            missing != nullptr ? missing->name : "any model but a dense one"));
  }
  CapturePlan plan;
  plan.kind = capture_kind(config);
  plan.warmup_steps = config.cuda_graph_warmup_steps;
  plan.optimizer_graph = config.optimizer_cuda_graph && plan.kind != CaptureKind::none;
  plan.separate_pools = cell.platform.graph_pool == matrix::GraphPool::separate;
  if (plan.kind == CaptureKind::full_iteration) {
    plan.scope = "full_iteration";
    plan.separate_pools = plan.separate_pools || !config.cuda_graph_use_single_mempool;
  } else if (plan.kind == CaptureKind::local) {
    plan.scope = scope_text(config.cuda_graph_scope);
    const bool dense_layers = plan.scope == "layer" ||
                              config.cuda_graph_scope.contains(CudaGraphModule::attn) ||
                              config.cuda_graph_scope.contains(CudaGraphModule::mlp);
    if (dense_layers) plan.captured_layers = graphed_layers(cell);
    plan.captured_layers.resize(static_cast<std::size_t>(config.num_layers), false);
  } else if (plan.kind == CaptureKind::transformer_engine) {
    plan.scope = scope_text(config.cuda_graph_scope);
    plan.captured_layers = graphed_layers(cell);
    plan.captured_modules = callable_modules(config.cuda_graph_scope);
  }
  plan.training_steps = std::max(cell.shape.steps, steps_needed(plan, cell.shape.eval_interval));
  return plan;
}

}  // namespace cgconform::workloads

#include "workloads/capture/capture_plan.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "matrix/built_features.hpp"
#include "matrix/error.hpp"
#include "matrix/layer_modules.hpp"
#include "matrix/moe_layers.hpp"
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

CaptureKind capture_kind(const matrix::Cell& cell) {
  const matrix::TrainingConfig& config = cell.config;
  const CaptureKind of_iteration = cell.shape.capture_form == matrix::CaptureForm::callables
                                       ? CaptureKind::callable_pair
                                       : CaptureKind::full_iteration;
  switch (config.cuda_graph_impl) {
    case CudaGraphImpl::none:
      return CaptureKind::none;
    case CudaGraphImpl::local:
      return config.cuda_graph_scope.contains(CudaGraphModule::full_iteration) ? of_iteration
                                                                               : CaptureKind::local;
    case CudaGraphImpl::full_iteration:
      return of_iteration;
    case CudaGraphImpl::transformer_engine:
      return CaptureKind::transformer_engine;
  }
  throw InternalError("capture plan: unknown cuda_graph_impl");
}

/// Scopes of the modules of a layer with experts, in order of execution.
constexpr std::array<std::string_view, 5> moe_layer_modules{"attn", "moe_router", "moe_preprocess",
                                                            "moe_experts", "moe_postprocess"};

/// True where a scope of ahead-of-time callables selects the module of a layer with experts.
bool is_selected(matrix::CudaGraphScope scope, std::string_view module) {
  if (module == "attn") return scope.contains(CudaGraphModule::attn);
  return scope.contains(CudaGraphModule::moe) ||
         (module == "moe_router" && scope.contains(CudaGraphModule::moe_router)) ||
         (module == "moe_preprocess" && scope.contains(CudaGraphModule::moe_preprocess));
}

bool is_whole(matrix::CudaGraphScope scope) {
  return scope.empty() || scope.contains(CudaGraphModule::full);
}

/// Modules that a scope of ahead-of-time callables selects.
std::vector<std::string> callable_modules(matrix::CudaGraphScope scope, bool experts) {
  std::vector<std::string> modules;
  if (experts) {
    for (const std::string_view module : moe_layer_modules) {
      if (is_whole(scope) || is_selected(scope, module)) modules.emplace_back(module);
    }
    return modules;
  }
  if (is_whole(scope) || scope.contains(CudaGraphModule::attn)) modules.emplace_back("attn");
  if (is_whole(scope) || scope.contains(CudaGraphModule::mlp)) modules.emplace_back("mlp");
  return modules;
}

/// Modules that a scope of `local` selects by the kind of the layer.
std::vector<std::string> local_modules(matrix::CudaGraphScope scope, bool experts) {
  if (!experts) {
    const bool selected = is_whole(scope) || scope.contains(CudaGraphModule::attn) ||
                          scope.contains(CudaGraphModule::mlp);
    return selected ? callable_modules({}, false) : std::vector<std::string>{};
  }
  if (is_whole(scope) || scope.contains(CudaGraphModule::moe)) return callable_modules({}, true);
  const bool around_experts = scope.contains(CudaGraphModule::moe_router) ||
                              scope.contains(CudaGraphModule::moe_preprocess);
  if (!around_experts) return {};
  return {"moe_router", "moe_preprocess", "moe_postprocess"};
}

/// The one module of a layer of a hybrid model that has no experts.
std::vector<std::string> module_of_hybrid(const matrix::Cell& cell, std::int32_t layer) {
  const matrix::CudaGraphScope held = matrix::modules_of_layer(cell.config, layer);
  std::vector<std::string> modules;
  for (const auto& [module, name] : module_names) {
    if (held.contains(module)) modules.emplace_back(name);
  }
  return modules;
}

std::vector<std::vector<std::string>> captured_modules(const matrix::Cell& cell, CaptureKind kind) {
  std::vector<std::vector<std::string>> captured;
  for (std::int32_t layer = 0; layer < cell.config.num_layers; ++layer) {
    std::vector<std::string>& modules = captured.emplace_back();
    if (!matrix::is_graphed(cell, layer)) continue;
    const bool experts = matrix::is_moe_layer(cell, layer);
    if (cell.config.is_hybrid_model && !experts) {
      if (matrix::selects_layer(cell.config, layer)) modules = module_of_hybrid(cell, layer);
      continue;
    }
    modules = kind == CaptureKind::local ? local_modules(cell.config.cuda_graph_scope, experts)
                                         : callable_modules(cell.config.cuda_graph_scope, experts);
    if (cell.config.is_hybrid_model) std::erase(modules, "attn");
  }
  return captured;
}

std::int32_t steps_needed(const CapturePlan& plan, std::int32_t eval_interval) {
  constexpr std::int32_t replays_after_capture = 2;
  switch (plan.kind) {
    case CaptureKind::none:
      return 1;
    case CaptureKind::local:
    case CaptureKind::callable_pair:
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
  if (kind == CaptureKind::none) return false;
  if (kind == CaptureKind::full_iteration || kind == CaptureKind::callable_pair) return true;
  const bool any = std::any_of(captured_modules.begin(), captured_modules.end(),
                               [](const auto& modules) { return !modules.empty(); });
  return any && (kind == CaptureKind::local || warmup_steps >= 0);
}

CapturePlan plan_capture(const matrix::Cell& cell) {
  const matrix::TrainingConfig& config = cell.config;
  const matrix::Feature* missing = matrix::missing_feature(cell, matrix::TargetDevice::reference);
  if (missing != nullptr) {
    throw Error(fmt::format("the workload cannot run this cell: {} is not built; leave it out",
                            missing->name));
  }
  CapturePlan plan;
  plan.kind = capture_kind(cell);
  plan.warmup_steps = config.cuda_graph_warmup_steps;
  plan.optimizer_graph = config.optimizer_cuda_graph && plan.kind != CaptureKind::none &&
                         cell.shape.capture_form != matrix::CaptureForm::whole_step;
  plan.separate_pools = cell.platform.graph_pool == matrix::GraphPool::separate;
  if (plan.kind == CaptureKind::full_iteration || plan.kind == CaptureKind::callable_pair) {
    plan.scope = plan.kind == CaptureKind::full_iteration ? "full_iteration" : "layers";
    plan.separate_pools = plan.separate_pools || !config.cuda_graph_use_single_mempool;
  } else if (plan.kind != CaptureKind::none) {
    plan.scope = scope_text(config.cuda_graph_scope);
    plan.captured_modules = captured_modules(cell, plan.kind);
  }
  std::int32_t needed = steps_needed(plan, cell.shape.eval_interval);
  // Every third step has a partial micro-batch, which is no call on the way to a capture.
  if (cell.shape.last_batch != matrix::LastBatch::full) needed += needed / 2 + 2;
  plan.training_steps = std::max(cell.shape.steps, needed);
  return plan;
}

}  // namespace cgconform::workloads

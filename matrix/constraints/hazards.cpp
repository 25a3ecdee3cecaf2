#include "matrix/constraints/hazards.hpp"

namespace cgconform::matrix {

using M = CudaGraphModule;
using R = RecomputeModule;

bool dispatch_syncs_in_capture(const Facts& f) {
  return !f.static_dispatch();
}

bool full_iteration_without_impl(const Facts& f) {
  return f.written.cuda_graph_impl == CudaGraphImpl::none && !f.written.enable_cuda_graph &&
         !f.written.external_cuda_graph && f.written_scope().contains(M::full_iteration);
}

bool recompute_is_skipped(const Facts& f) {
  const bool shared_captured =
      f.captured(M::moe) || (f.in_scope(M::moe_router) && f.separate_shared_experts());
  if (f.recomputes(R::core_attn) && f.captured(M::attn)) return true;
  if (f.low_precision()) return false;
  return (f.recomputes(R::mlp) && f.captured(M::mlp)) ||
         (f.recomputes(R::moe) && f.captured(M::moe)) ||
         (f.recomputes(R::shared_experts) && shared_captured);
}

bool local_checkpoint_in_low_precision(const Facts& f) {
  const bool shared_captured =
      f.captured(M::moe) || (f.in_scope(M::moe_router) && f.separate_shared_experts());
  return (f.recomputes(R::mlp) && f.captured(M::mlp)) ||
         (f.recomputes(R::shared_experts) && shared_captured);
}

bool full_recompute_with_dropout(const Facts& f) {
  return f.config.attention_dropout != 0.0F || f.config.hidden_dropout != 0.0F;
}

bool local_scope_selects_layer_types(const Facts& f) {
  return !f.config.is_hybrid_model && (f.in_scope(M::attn) || f.in_scope(M::moe_router));
}

bool local_mlp_alone(const Facts& f) {
  return f.in_scope(M::mlp) && !f.in_scope(M::attn);
}

bool bridge_local_loophole(const Facts& f) {
  const bool inference_scope = f.config.cuda_graph_scope.empty() &&
                               f.written.inference_cuda_graph_scope.value_or(
                                   InferenceCudaGraphScope::none) != InferenceCudaGraphScope::none;
  return f.written.enable_cuda_graph || inference_scope;
}

}  // namespace cgconform::matrix

#pragma once

#include "workloads/ops/op.hpp"

/// Calls `apply` with the name of each op that has a CUDA kernel. From this list the kernels are
/// declared and, for programs without CUDA, defined as refusals.
#define CGCONFORM_FOR_EACH_CUDA_KERNEL(apply)                                                      \
  apply(gemm) apply(gemm_accumulate) apply(gemm_bias) apply(cast) apply(unscale_gradients) apply(  \
      update_loss_scale) apply(add) apply(accumulate) apply(scale) apply(axpy) apply(add_bias)     \
      apply(bias_grad) apply(bias_grads) apply(gelu_forward) apply(gelu_backward) apply(           \
          layer_norm_forward) apply(layer_norm_backward) apply(split_heads) apply(merge_heads)     \
          apply(causal_softmax_forward) apply(causal_softmax_backward) apply(                      \
              dropout_forward) apply(dropout_by_value) apply(dropout_backward) apply(fill_normal)  \
              apply(fill_uniform) apply(fill_tokens) apply(poison) apply(embedding_forward) apply( \
                  embedding_backward) apply(cross_entropy_forward) apply(cross_entropy_backward)   \
                  apply(sgd_step) apply(adam_step) apply(advance_step) apply(                      \
                      top_k_router_forward) apply(top_k_router_backward) apply(count_load)         \
                      apply(load_balancing_loss) apply(load_gradient) apply(jitter_forward) apply( \
                          multiply) apply(assign_slots) apply(dispatch_rows) apply(combine_rows)   \
                          apply(combine_weights_backward) apply(checksum) apply(compare) apply(    \
                              causal_convolution_forward) apply(causal_convolution_backward)       \
                              apply(selective_scan_forward) apply(selective_scan_backward) apply(  \
                                  gate_forward) apply(gate_backward) apply(packed_softmax_forward) \
                                  apply(take_heads) apply(merge_head_groups) apply(split_parts)    \
                                      apply(fill_normal_parts) apply(compare_pairs)                \
                                          apply(checksums) apply(copies) apply(fp8_quantise)       \
                                              apply(fp8_quantise_weight) apply(fp8_current_scale)  \
                                                  apply(fp8_update_scales) apply(fp8_gemm) apply(  \
                                                      fp8_gemm_accumulate) apply(square_sums)      \
                                                      apply(clip_factor) apply(scale_by)           \
                                                          apply(fp8_amax)                          \
                                                              apply(fused_attention_forward)       \
                                                                  apply(fused_attention_backward)  \
                                                                      apply(fp8_scale_of_amax)

/// Each enqueues its op on the context's stream. None synchronises with the host, and none depends
/// on the order in which threads run: float atomics are not used.
namespace cgconform::workloads::cuda {

#define CGCONFORM_DECLARE_CUDA_KERNEL(name) \
  void name(const OpCall& call, const LaunchContext& context);
CGCONFORM_FOR_EACH_CUDA_KERNEL(CGCONFORM_DECLARE_CUDA_KERNEL)
#undef CGCONFORM_DECLARE_CUDA_KERNEL

}  // namespace cgconform::workloads::cuda

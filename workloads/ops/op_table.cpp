#include "workloads/ops/op_table.hpp"

#include <array>

#include "workloads/ops/attention.hpp"
#include "workloads/ops/dropout.hpp"
#include "workloads/ops/elementwise.hpp"
#include "workloads/ops/embedding_and_loss.hpp"
#include "workloads/ops/expert_rows.hpp"
#include "workloads/ops/fill.hpp"
#include "workloads/ops/fp8.hpp"
#include "workloads/ops/fused_attention.hpp"
#include "workloads/ops/gemm.hpp"
#include "workloads/ops/gradient_norm.hpp"
#include "workloads/ops/head_groups.hpp"
#include "workloads/ops/layer_norm.hpp"
#include "workloads/ops/mamba.hpp"
#include "workloads/ops/optimizer.hpp"
#include "workloads/ops/packed_attention.hpp"
#include "workloads/ops/router.hpp"
#include "workloads/ops/verification.hpp"

namespace cgconform::workloads {

std::span<const OpDeclaration* const> op_table() {
  static constexpr auto table = std::to_array<const OpDeclaration*>({
      &gemm_op,
      &gemm_accumulate_op,
      &gemm_bias_op,
      &add_op,
      &accumulate_op,
      &scale_op,
      &axpy_op,
      &add_bias_op,
      &bias_grad_op,
      &bias_grads_op,
      &cast_op,
      &gelu_forward_op,
      &gelu_backward_op,
      &layer_norm_forward_op,
      &layer_norm_backward_op,
      &split_heads_op,
      &merge_heads_op,
      &split_parts_op,
      &causal_softmax_forward_op,
      &causal_softmax_backward_op,
      &fused_attention_forward_op,
      &fused_attention_backward_op,
      &packed_softmax_forward_op,
      &take_heads_op,
      &merge_head_groups_op,
      &causal_convolution_forward_op,
      &causal_convolution_backward_op,
      &selective_scan_forward_op,
      &selective_scan_backward_op,
      &gate_forward_op,
      &gate_backward_op,
      &dropout_forward_op,
      &dropout_by_value_op,
      &dropout_backward_op,
      &fill_normal_op,
      &fill_normal_parts_op,
      &fill_uniform_op,
      &fill_tokens_op,
      &poison_op,
      &embedding_forward_op,
      &embedding_backward_op,
      &cross_entropy_forward_op,
      &cross_entropy_backward_op,
      &top_k_router_forward_op,
      &top_k_router_backward_op,
      &count_load_op,
      &load_balancing_loss_op,
      &load_gradient_op,
      &jitter_forward_op,
      &multiply_op,
      &assign_slots_op,
      &dispatch_rows_op,
      &combine_rows_op,
      &combine_weights_backward_op,
      &sgd_step_op,
      &adam_step_op,
      &advance_step_op,
      &unscale_gradients_op,
      &update_loss_scale_op,
      &square_sums_op,
      &clip_factor_op,
      &scale_by_op,
      &copies_op,
      &fp8_quantise_op,
      &fp8_quantise_weight_op,
      &fp8_current_scale_op,
      &fp8_amax_op,
      &fp8_scale_of_amax_op,
      &fp8_update_scales_op,
      &fp8_gemm_op,
      &fp8_gemm_accumulate_op,
      &checksum_op,
      &checksums_op,
      &compare_op,
      &compare_pairs_op,
  });
  return table;
}

}  // namespace cgconform::workloads

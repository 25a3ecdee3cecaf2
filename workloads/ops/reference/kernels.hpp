#pragma once

#include "workloads/ops/op.hpp"

/// The reference kernel of each op: serial, deterministic, and as plain as the formula. Each takes
/// the operands that its declaration lists.
namespace cgconform::workloads::reference {

void gemm(const OpCall& call);
void gemm_accumulate(const OpCall& call);
void gemm_bias(const OpCall& call);

void add(const OpCall& call);
void accumulate(const OpCall& call);
void scale(const OpCall& call);
void axpy(const OpCall& call);
void add_bias(const OpCall& call);
void bias_grad(const OpCall& call);
void bias_grads(const OpCall& call);
void cast(const OpCall& call);
void gelu_forward(const OpCall& call);
void gelu_backward(const OpCall& call);

void layer_norm_forward(const OpCall& call);
void layer_norm_backward(const OpCall& call);

void causal_convolution_forward(const OpCall& call);
void causal_convolution_backward(const OpCall& call);
void selective_scan_forward(const OpCall& call);
void selective_scan_backward(const OpCall& call);
void gate_forward(const OpCall& call);
void gate_backward(const OpCall& call);

void packed_softmax_forward(const OpCall& call);
void take_heads(const OpCall& call);
void merge_head_groups(const OpCall& call);

void split_heads(const OpCall& call);
void merge_heads(const OpCall& call);
void split_parts(const OpCall& call);
void causal_softmax_forward(const OpCall& call);
void causal_softmax_backward(const OpCall& call);
void fused_attention_forward(const OpCall& call);
void fused_attention_backward(const OpCall& call);

void dropout_forward(const OpCall& call);
void dropout_by_value(const OpCall& call);
void dropout_backward(const OpCall& call);

void fill_normal(const OpCall& call);
void fill_normal_parts(const OpCall& call);
void fill_uniform(const OpCall& call);
void fill_tokens(const OpCall& call);
void poison(const OpCall& call);

void embedding_forward(const OpCall& call);
void embedding_backward(const OpCall& call);
void cross_entropy_forward(const OpCall& call);
void cross_entropy_backward(const OpCall& call);

void top_k_router_forward(const OpCall& call);
void top_k_router_backward(const OpCall& call);
void count_load(const OpCall& call);
void load_balancing_loss(const OpCall& call);
void load_gradient(const OpCall& call);
void jitter_forward(const OpCall& call);
void multiply(const OpCall& call);

void assign_slots(const OpCall& call);
void dispatch_rows(const OpCall& call);
void combine_rows(const OpCall& call);
void combine_weights_backward(const OpCall& call);

void sgd_step(const OpCall& call);
void adam_step(const OpCall& call);
void advance_step(const OpCall& call);
void unscale_gradients(const OpCall& call);
void update_loss_scale(const OpCall& call);
void square_sums(const OpCall& call);
void clip_factor(const OpCall& call);
void scale_by(const OpCall& call);

void copies(const OpCall& call);

void fp8_quantise(const OpCall& call);
void fp8_quantise_weight(const OpCall& call);
void fp8_current_scale(const OpCall& call);
void fp8_amax(const OpCall& call);
void fp8_scale_of_amax(const OpCall& call);
void fp8_update_scales(const OpCall& call);
void fp8_gemm(const OpCall& call);
void fp8_gemm_accumulate(const OpCall& call);

void checksum(const OpCall& call);
void checksums(const OpCall& call);
void compare(const OpCall& call);
void compare_pairs(const OpCall& call);

}  // namespace cgconform::workloads::reference

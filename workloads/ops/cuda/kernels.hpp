#pragma once

#include "workloads/ops/op.hpp"

/// The CUDA kernel of each op, enqueued on the context's stream; null in builds without CUDA. None
/// synchronises with the host, and none depends on the order in which threads run: float atomics
/// are not used.
#if defined(CGCONFORM_WITH_CUDA)
#define CGCONFORM_CUDA_KERNEL(name) void name(const OpCall& call, const LaunchContext& context)
#else
#define CGCONFORM_CUDA_KERNEL(name) inline constexpr CudaKernel name = nullptr
#endif

namespace cgconform::workloads::cuda {

CGCONFORM_CUDA_KERNEL(gemm);
CGCONFORM_CUDA_KERNEL(gemm_accumulate);

CGCONFORM_CUDA_KERNEL(add);
CGCONFORM_CUDA_KERNEL(accumulate);
CGCONFORM_CUDA_KERNEL(scale);
CGCONFORM_CUDA_KERNEL(axpy);
CGCONFORM_CUDA_KERNEL(add_bias);
CGCONFORM_CUDA_KERNEL(bias_grad);
CGCONFORM_CUDA_KERNEL(gelu_forward);
CGCONFORM_CUDA_KERNEL(gelu_backward);

CGCONFORM_CUDA_KERNEL(layer_norm_forward);
CGCONFORM_CUDA_KERNEL(layer_norm_backward);

CGCONFORM_CUDA_KERNEL(split_heads);
CGCONFORM_CUDA_KERNEL(merge_heads);
CGCONFORM_CUDA_KERNEL(causal_softmax_forward);
CGCONFORM_CUDA_KERNEL(causal_softmax_backward);

CGCONFORM_CUDA_KERNEL(dropout_forward);
CGCONFORM_CUDA_KERNEL(dropout_by_value);
CGCONFORM_CUDA_KERNEL(dropout_backward);

CGCONFORM_CUDA_KERNEL(fill_normal);
CGCONFORM_CUDA_KERNEL(fill_uniform);
CGCONFORM_CUDA_KERNEL(fill_tokens);
CGCONFORM_CUDA_KERNEL(poison);

CGCONFORM_CUDA_KERNEL(embedding_forward);
CGCONFORM_CUDA_KERNEL(embedding_backward);
CGCONFORM_CUDA_KERNEL(cross_entropy_forward);
CGCONFORM_CUDA_KERNEL(cross_entropy_backward);

CGCONFORM_CUDA_KERNEL(sgd_step);
CGCONFORM_CUDA_KERNEL(adam_step);
CGCONFORM_CUDA_KERNEL(advance_step);

CGCONFORM_CUDA_KERNEL(checksum);
CGCONFORM_CUDA_KERNEL(compare);

}  // namespace cgconform::workloads::cuda

#undef CGCONFORM_CUDA_KERNEL

#pragma once

#include <memory>
#include <type_traits>

#include <cuda_runtime_api.h>
#include <nccl.h>

namespace cgconform::workloads::cuda {

/// Owns a CUDA or NCCL handle; `destroy` runs in the destructor and its status is dropped, since a
/// destructor has nobody to tell. Where the status matters, release the handle and destroy it.
template <typename Handle, auto Destroy>
struct HandleDeleter {
  using pointer = Handle;
  void operator()(Handle handle) const noexcept { static_cast<void>(Destroy(handle)); }
};

template <typename Handle, auto Destroy>
using UniqueHandle = std::unique_ptr<std::remove_pointer_t<Handle>, HandleDeleter<Handle, Destroy>>;

using StreamHandle = UniqueHandle<cudaStream_t, cudaStreamDestroy>;
using EventHandle = UniqueHandle<cudaEvent_t, cudaEventDestroy>;
using GraphHandle = UniqueHandle<cudaGraph_t, cudaGraphDestroy>;
using GraphExecHandle = UniqueHandle<cudaGraphExec_t, cudaGraphExecDestroy>;

}  // namespace cgconform::workloads::cuda

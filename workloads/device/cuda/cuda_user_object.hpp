#pragma once

#include <functional>
#include <memory>

#include <cuda_runtime_api.h>

#include "workloads/device/cuda/cuda_state.hpp"

namespace cgconform::workloads::cuda {

/// A user object of the runtime, with the caller's reference on it. The runtime runs `released`
/// when the last reference has gone, on a thread of its own.
std::shared_ptr<void> make_user_object(std::shared_ptr<CudaState> state,
                                       std::function<void()> released);
/// The runtime's handle of an object made by `make_user_object`.
cudaUserObject_t user_object_handle(const std::shared_ptr<void>& user_object);

}  // namespace cgconform::workloads::cuda

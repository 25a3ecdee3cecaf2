#pragma once

#include <algorithm>
#include <chrono>
#include <vector>

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include "workloads/allocator/caching_allocator.hpp"
#include "workloads/device/cuda/cuda_error.hpp"
#include "workloads/device/cuda/cuda_graph.hpp"
#include "workloads/device/cuda/cuda_stream.hpp"
#include "workloads/device/device.hpp"
#include "workloads/ops/elementwise.hpp"

namespace cgconform {

/// Median microseconds of the host for one call of `launch`, in short bursts between which the
/// device becomes idle, so that no queue is ever full.
template <typename Launch>
double launch_microseconds(workloads::Stream& stream, Launch&& launch) {
  constexpr int bursts = 200;
  constexpr int launches = 5;
  std::vector<double> costs;
  for (int burst = 0; burst < bursts; ++burst) {
    stream.synchronize();
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < launches; ++i) launch();
    const std::chrono::duration<double, std::micro> spent =
        std::chrono::steady_clock::now() - start;
    costs.push_back(spent.count() / launches);
  }
  stream.synchronize();
  std::nth_element(costs.begin(), costs.begin() + bursts / 2, costs.end());
  return costs[bursts / 2];
}

/// Prints what a launch costs the host through the device interface, beside a loop of bare
/// cudaGraphLaunch calls on the same executable, for graphs of several sizes.
inline void print_launch_cost(workloads::Device& device) {
  using workloads::Buffer;
  const auto stream = device.create_stream("launch cost");
  workloads::CachingAllocator allocator(device.segment_source());
  const auto buffer = [&](const char* name) {
    return Buffer(allocator, *stream, workloads::default_pool, workloads::DType::fp32,
                  workloads::Shape{256}, name);
  };
  const Buffer sum = buffer("sum");
  const Buffer addend = buffer("addend");
  stream->fill(sum.view(), 0, "sum");
  stream->fill(addend.view(), 0, "addend");
  const cudaStream_t bare_stream = static_cast<workloads::cuda::CudaStream&>(*stream).handle();
  for (const int nodes : {10, 100, 1000}) {
    stream->begin_capture(workloads::CaptureMode::thread_local_mode);
    for (int i = 0; i < nodes; ++i) accumulate(*stream, sum.view(), addend.view(), "sum");
    const auto exec = stream->end_capture()->instantiate();
    const cudaGraphExec_t bare = static_cast<workloads::cuda::CudaGraphExec&>(*exec).handle();
    const auto by_interface = [&] { exec->launch(*stream); };
    const auto by_runtime = [&] { CGCONFORM_CUDA_TRY(cudaGraphLaunch(bare, bare_stream)); };
    launch_microseconds(*stream, by_runtime);  // warms up
    const double before = launch_microseconds(*stream, by_runtime);
    const double interface_cost = launch_microseconds(*stream, by_interface);
    const double after = launch_microseconds(*stream, by_runtime);
    const double bare_cost = (before + after) / 2.0;
    fmt::print(
        "launch of a graph of {} kernels: {:.2f} us, bare cudaGraphLaunch {:.2f} us, "
        "ratio {:.3f}\n",
        nodes, interface_cost, bare_cost, interface_cost / bare_cost);
  }
}

}  // namespace cgconform

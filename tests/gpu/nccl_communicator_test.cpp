#include <memory>

#include <gtest/gtest.h>

#include "workloads/allocator/caching_allocator.hpp"
#include "workloads/device/communicator.hpp"
#include "workloads/device/cuda/cuda_device.hpp"

namespace cgconform::workloads {
namespace {

TEST(NcclCommunicator, RefusesCollectivesOfTensorsThatDoNotFit) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "this machine has no NVIDIA device";
  const std::unique_ptr<Device> device = create_cuda_device({});
  const std::unique_ptr<Stream> stream = device->create_stream("sizes");
  CachingAllocator allocator(device->segment_source());
  const Buffer small(allocator, *stream, default_pool, DType::fp32, Shape{4}, "small");
  const Buffer large(allocator, *stream, default_pool, DType::fp32, Shape{8}, "large");
  const auto alone = device->create_communicator({.name = "alone"});
  const auto expect_refused = [](const auto& call) {
    try {
      call();
      ADD_FAILURE() << "was taken";
    } catch (const DeviceError& error) {
      EXPECT_EQ(error.category(), ErrorCategory::communicator_invalid_usage) << error.what();
    }
  };
  const TensorView to = small.view();
  const TensorView from = large.view();
  expect_refused([&] { alone->all_reduce(to, from, ReduceOp::sum, *stream, "reduce"); });
  expect_refused([&] { alone->all_gather(to, from, *stream, "gather"); });
  expect_refused([&] { alone->reduce_scatter(to, from, *stream, "scatter"); });
  alone->all_gather(to, to, *stream, "gather");
  stream->synchronize();
}

}  // namespace
}  // namespace cgconform::workloads

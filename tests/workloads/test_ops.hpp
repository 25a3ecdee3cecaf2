#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "workloads/allocator/caching_allocator.hpp"
#include "workloads/device/device.hpp"
#include "workloads/ops/op.hpp"

namespace cgconform::workloads::test {

inline constexpr std::array<OperandDeclaration, 1> set_operands{{{"out", Access::write}}};
inline constexpr std::array<OperandDeclaration, 2> add_operands{
    {{"out", Access::accumulate}, {"in", Access::read}}};

inline void set_kernel(const OpCall& call) {
  auto* out = static_cast<float*>(call.operand(0).data);
  for (std::int64_t i = 0; i < call.operand(0).elements(); ++i) out[i] = call.params.as<float>();
}
inline void add_kernel(const OpCall& call) {
  auto* out = static_cast<float*>(call.operand(0).data);
  const auto* in = static_cast<const float*>(call.operand(1).data);
  for (std::int64_t i = 0; i < call.operand(0).elements(); ++i) out[i] += in[i];
}
inline void twice_kernel(const OpCall& call) {
  auto* out = static_cast<float*>(call.operand(0).data);
  for (std::int64_t i = 0; i < call.operand(0).elements(); ++i) out[i] *= 2.0F;
}

/// out = value
inline constexpr OpDeclaration set_op{"set", set_operands, set_kernel, nullptr};
/// out += in
inline constexpr OpDeclaration add_op{"add", add_operands, add_kernel, nullptr};
inline constexpr std::array<OperandDeclaration, 1> twice_operands{{{"out", Access::accumulate}}};
/// out *= 2
inline constexpr OpDeclaration twice_op{"twice", twice_operands, twice_kernel, nullptr};

inline OpCall set(const TensorView& out, float value) {
  return make_call(set_op, {&out, 1}, OpParams::of(value), "set");
}
inline OpCall add(const TensorView& out, const TensorView& in) {
  const std::array<TensorView, 2> tensors{out, in};
  return make_call(add_op, tensors, {}, "add");
}
inline OpCall twice(const TensorView& out) {
  return make_call(twice_op, {&out, 1}, {}, "twice");
}

inline std::vector<float> values(Stream& stream, const TensorView& tensor) {
  std::vector<float> host(static_cast<std::size_t>(tensor.elements()));
  stream.download(host.data(), tensor);
  return host;
}
inline float value(Stream& stream, const TensorView& tensor) {
  return values(stream, tensor).front();
}

/// A reference device with a stream and an allocator.
struct DeviceFixture {
  explicit DeviceFixture(const ReferenceDeviceOptions& options = {})
      : device(create_reference_device(options)), allocator(device->segment_source()) {}

  Buffer buffer(std::int64_t elements = 1, PoolId pool = default_pool) {
    return {allocator, *stream, pool, DType::fp32, Shape{elements}, "test"};
  }

  std::unique_ptr<Device> device;
  CachingAllocator allocator;
  std::unique_ptr<Stream> stream = device->create_stream("main", StreamKind::non_blocking);
};

}  // namespace cgconform::workloads::test

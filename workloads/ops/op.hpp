#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "workloads/device/tensor.hpp"

namespace cgconform::workloads {

/// How an op uses an operand; `accumulate` reads and writes it.
enum class Access : std::uint8_t { read, write, accumulate };

/// Name and access of an operand in an op's declaration, in call order.
struct OperandDeclaration {
  std::string_view name;
  Access access = Access::read;
  bool optional = false;
};

/// Scalars passed to a kernel by value: frozen by capture, unlike scalars in device memory, which
/// are operands. Holds one trivially copyable struct of at most 64 bytes.
class OpParams {
 public:
  OpParams() = default;
  template <typename T>
  static OpParams of(const T& value) {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= sizeof(bytes_));
    OpParams params;
    std::memcpy(params.bytes_.data(), &value, sizeof(T));
    return params;
  }
  template <typename T>
  T as() const {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= sizeof(bytes_));
    T value;
    std::memcpy(&value, bytes_.data(), sizeof(T));
    return value;
  }
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  alignas(16) std::array<std::byte, 64> bytes_{};
};

struct OpCall;
/// Runs the op on the host; the reference device calls it in stream or graph order.
using ReferenceKernel = void (*)(const OpCall& call);
namespace cuda {
struct LaunchContext;
}
/// Enqueues the op on the context's stream; null where the op has no CUDA kernel. Programs linked
/// without CUDA have kernels that refuse.
using CudaKernel = void (*)(const OpCall& call, const cuda::LaunchContext& context);

/// One op, declared once: its name, its operands in order, and its kernel for each device.
struct OpDeclaration {
  std::string_view name;
  std::span<const OperandDeclaration> operands;
  ReferenceKernel reference = nullptr;
  CudaKernel cuda = nullptr;
};

/// An operand bound to memory.
struct Operand {
  std::string_view name;  ///< points into the declaration
  Access access = Access::read;
  TensorView tensor;
};

/// One launch: which op, on what memory, with which by-value scalars. `label` says where it comes
/// from ("step 2 mb 1 layer 0 mlp.fc1"), for hang reports and first-wrong-tensor messages.
struct OpCall {
  const OpDeclaration* op = nullptr;
  std::vector<Operand> operands;
  OpParams params;
  std::string label;

  const TensorView& operand(std::size_t index) const { return operands[index].tensor; }
};

/// Binds `tensors` to the declaration's operands in order; optional operands may be invalid views.
/// Throws InternalError where the count differs.
OpCall make_call(const OpDeclaration& op, std::span<const TensorView> tensors, OpParams params,
                 std::string label);

}  // namespace cgconform::workloads

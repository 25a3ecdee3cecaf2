#include "workloads/ops/op.hpp"

#include <utility>

#include <fmt/format.h>

#include "matrix/error.hpp"

namespace cgconform::workloads {

OpCall make_call(const OpDeclaration& op, std::span<const TensorView> tensors, OpParams params,
                 std::string label) {
  if (tensors.size() != op.operands.size()) {
    throw InternalError(fmt::format("{} ({}): {} tensors given for {} declared operands", label,
                                    op.name, tensors.size(), op.operands.size()));
  }
  OpCall call{.op = &op, .operands = {}, .params = params, .label = std::move(label)};
  call.operands.reserve(tensors.size());
  for (std::size_t index = 0; index < tensors.size(); ++index) {
    const OperandDeclaration& declaration = op.operands[index];
    if (!declaration.optional && !tensors[index].valid() && tensors[index].elements() > 0) {
      throw InternalError(
          fmt::format("{} ({}): operand {} has no memory", call.label, op.name, declaration.name));
    }
    call.operands.push_back(
        {.name = declaration.name, .access = declaration.access, .tensor = tensors[index]});
  }
  return call;
}

}  // namespace cgconform::workloads

#include "workloads/ops/verification.hpp"

#include <array>
#include <utility>

#include "matrix/error.hpp"
#include "workloads/ops/cuda/kernels.hpp"
#include "workloads/ops/reference/kernels.hpp"

namespace cgconform::workloads {

namespace {

constexpr std::array checksum_operands{OperandDeclaration{"cell", Access::write},
                                       OperandDeclaration{"source", Access::read}};
constexpr std::array compare_operands{OperandDeclaration{"outcome", Access::write},
                                      OperandDeclaration{"expected", Access::read},
                                      OperandDeclaration{"actual", Access::read}};

}  // namespace

const OpDeclaration checksum_op{"checksum", checksum_operands, reference::checksum, cuda::checksum};
const OpDeclaration compare_op{"compare", compare_operands, reference::compare, cuda::compare};

void checksum(Stream& stream, const TensorView& cell, const TensorView& source, std::string label) {
  stream.launch(make_call(checksum_op, std::array{cell, source}, {}, std::move(label)));
}

void compare(Stream& stream, const TensorView& outcome, const TensorView& expected,
             const TensorView& actual, const CompareParams& params, std::string label) {
  if (expected.dtype != actual.dtype || expected.shape != actual.shape ||
      outcome.bytes() != static_cast<std::int64_t>(sizeof(CompareOutcome))) {
    throw InternalError("compare: the types or shapes of the operands do not fit");
  }
  stream.launch(make_call(compare_op, std::array{outcome, expected, actual}, OpParams::of(params),
                          std::move(label)));
}

}  // namespace cgconform::workloads

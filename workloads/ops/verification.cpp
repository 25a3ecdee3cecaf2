#include "workloads/ops/verification.hpp"

#include <array>
#include <utility>

#include "matrix/error.hpp"
#include "workloads/ops/cuda/kernels.hpp"
#include "workloads/ops/reference/kernels.hpp"

namespace cgconform::workloads {

namespace {

constexpr std::array copies_operands{OperandDeclaration{"destination", Access::write},
                                     OperandDeclaration{"source", Access::read}};
constexpr std::array checksum_operands{OperandDeclaration{"cell", Access::write},
                                       OperandDeclaration{"source", Access::read}};
constexpr std::array checksums_operands{OperandDeclaration{"cells", Access::write},
                                        OperandDeclaration{"source", Access::read}};
constexpr std::array compare_operands{OperandDeclaration{"outcome", Access::write},
                                      OperandDeclaration{"expected", Access::read},
                                      OperandDeclaration{"actual", Access::read}};
constexpr std::array compare_pairs_operands{OperandDeclaration{"outcomes", Access::write},
                                            OperandDeclaration{"expected", Access::read},
                                            OperandDeclaration{"actual", Access::read}};

}  // namespace

const OpDeclaration copies_op{"copies", copies_operands, reference::copies, cuda::copies};
const OpDeclaration checksum_op{"checksum", checksum_operands, reference::checksum, cuda::checksum};
const OpDeclaration checksums_op{"checksums", checksums_operands, reference::checksums,
                                 cuda::checksums};
const OpDeclaration compare_op{"compare", compare_operands, reference::compare, cuda::compare};
const OpDeclaration compare_pairs_op{"compare_pairs", compare_pairs_operands,
                                     reference::compare_pairs, cuda::compare_pairs};

void copies(Stream& stream, std::span<const CopyPair> pairs, std::string label) {
  OpCall call{.op = &copies_op, .operands = {}, .params = {}, .label = std::move(label)};
  call.operands.reserve(2 * pairs.size());
  for (const auto& [destination, source] : pairs) {
    if (destination.bytes() != source.bytes()) {
      throw InternalError("copies: the sizes of the operands do not fit");
    }
    call.operands.push_back({"destination", Access::write, destination});
    call.operands.push_back({"source", Access::read, source});
  }
  if (!pairs.empty()) stream.launch(call);
}

void checksum(Stream& stream, const TensorView& cell, const TensorView& source, std::string label) {
  stream.launch(make_call(checksum_op, std::array{cell, source}, {}, std::move(label)));
}

void checksums(Stream& stream, const TensorView& cells, std::span<const TensorView> sources,
               std::string label) {
  if (cells.elements() != static_cast<std::int64_t>(sources.size())) {
    throw InternalError("checksums: there must be a cell for each source");
  }
  OpCall call{.op = &checksums_op,
              .operands = {{"cells", Access::write, cells}},
              .params = {},
              .label = std::move(label)};
  call.operands.reserve(1 + sources.size());
  for (const TensorView& source : sources) {
    call.operands.push_back({"source", Access::read, source});
  }
  if (!sources.empty()) stream.launch(call);
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

void compare_pairs(Stream& stream, const TensorView& outcomes, std::span<const TensorPair> pairs,
                   const CompareParams& params, std::string label) {
  OpCall call{.op = &compare_pairs_op,
              .operands = {{"outcomes", Access::write, outcomes}},
              .params = OpParams::of(params),
              .label = std::move(label)};
  call.operands.reserve(1 + 2 * pairs.size());
  const DType dtype = pairs.empty() ? DType::fp32 : pairs.front().expected.dtype;
  bool fits = outcomes.bytes() == static_cast<std::int64_t>(pairs.size() * sizeof(CompareOutcome));
  for (const auto& [expected, actual] : pairs) {
    fits =
        fits && expected.dtype == dtype && actual.dtype == dtype && expected.shape == actual.shape;
    call.operands.push_back({"expected", Access::read, expected});
    call.operands.push_back({"actual", Access::read, actual});
  }
  if (!fits) {
    throw InternalError("compare_pairs: the types or shapes of the operands do not fit");
  }
  if (!pairs.empty()) stream.launch(call);
}

}  // namespace cgconform::workloads

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/workloads/guarded_memory.hpp"
#include "tests/workloads/host_stream.hpp"
#include "workloads/device/sixteen_bit.hpp"
#include "workloads/ops/op_cases.hpp"
#include "workloads/ops/op_table.hpp"

namespace cgconform::workloads::test {
namespace {

using Bytes = std::vector<std::byte>;

/// Runs a case in memory of its own and returns what each operand holds afterwards.
std::vector<Bytes> run(const OpCase& one) {
  std::vector<Bytes> memory;
  std::vector<TensorView> views;
  for (const OperandContent& operand : one.operands) memory.push_back(operand.bytes);
  for (std::size_t i = 0; i < memory.size(); ++i) {
    views.push_back({memory[i].data(), one.operands[i].dtype, one.operands[i].shape});
  }
  HostStream stream;
  one.launch(stream, views);
  return memory;
}

/// Runs a case with each operand between guard pages and those it only reads write-protected.
void run_guarded(const OpCase& one) {
  std::vector<std::unique_ptr<GuardedMemory>> memory;
  std::vector<TensorView> views;
  for (std::size_t i = 0; i < one.operands.size(); ++i) {
    const OperandContent& operand = one.operands[i];
    memory.push_back(std::make_unique<GuardedMemory>(operand.bytes));
    views.push_back({memory.back()->data(), operand.dtype, operand.shape});
    if (one.op->operands[i].access == Access::read) memory.back()->make_read_only();
  }
  HostStream stream;
  one.launch(stream, views);
}

/// Every case in every floating type.
std::vector<OpCase> all_cases() {
  std::vector<OpCase> cases;
  for (const DType dtype : {DType::fp32, DType::fp64, DType::bf16, DType::fp16}) {
    for (OpCase& one : op_cases(dtype)) cases.push_back(std::move(one));
  }
  return cases;
}

Bytes filled(std::size_t bytes, int value) {
  return Bytes(bytes, static_cast<std::byte>(value));
}

TEST(OpTable, ListsEveryOpOnceWithNameOperandsAndReferenceKernel) {
  std::set<std::string_view> names;
  for (const OpDeclaration* op : op_table()) {
    EXPECT_TRUE(names.insert(op->name).second) << op->name << " is listed twice";
    EXPECT_FALSE(op->name.empty());
    EXPECT_NE(op->reference, nullptr) << op->name;
    std::set<std::string_view> operands;
    bool writes = false;
    for (const OperandDeclaration& operand : op->operands) {
      EXPECT_TRUE(operands.insert(operand.name).second) << op->name << " " << operand.name;
      writes = writes || operand.access != Access::read;
    }
    EXPECT_TRUE(writes) << op->name << " declares no result";
  }
}

TEST(OpTable, HasACaseForEveryOpThatLaunchesThatOp) {
  std::set<const OpDeclaration*> tested;
  for (const OpCase& one : all_cases()) {
    HostStream stream(false);
    std::vector<TensorView> views;
    for (const OperandContent& operand : one.operands) {
      views.push_back({const_cast<std::byte*>(operand.bytes.data()), operand.dtype, operand.shape});
    }
    one.launch(stream, views);
    ASSERT_EQ(stream.calls().size(), 1U) << one.op->name;
    EXPECT_EQ(stream.calls()[0].op, one.op) << one.op->name;
    EXPECT_EQ(stream.calls()[0].label, "case") << one.op->name;
    tested.insert(one.op);
  }
  for (const OpDeclaration* op : op_table()) EXPECT_TRUE(tested.contains(op)) << op->name;
  EXPECT_EQ(tested.size(), op_table().size()) << "a case launches an op that the table lacks";
}

TEST(OpDeclarations, NameAllMemoryThatKernelsTouch) {
  for (const OpCase& one : all_cases()) {
    EXPECT_EXIT(
        {
          run_guarded(one);
          std::_Exit(0);
        },
        ::testing::ExitedWithCode(0), "")
        << one.op->name << " reaches outside its operands or writes one it declares as read";
  }
}

TEST(OpDeclarations, WrittenOperandsAreWhollyDefinedByTheOp) {
  for (OpCase one : all_cases()) {
    const auto with_old_content = [&](int value) {
      OpCase changed = one;
      for (std::size_t i = 0; i < one.operands.size(); ++i) {
        if (one.op->operands[i].access != Access::write) continue;
        changed.operands[i].bytes = filled(one.operands[i].bytes.size(), value);
      }
      return run(changed);
    };
    EXPECT_EQ(with_old_content(0x00), with_old_content(0xFF))
        << one.op->name << " lets old content of an operand it declares as written shine through";
  }
}

/// Expects of every operand of one access that some case of its op, in every floating type, shows
/// what `shows(case, operand, results)` says; an op may do nothing in the others.
template <typename Shows>
void expect_of_operands(Access access, const Shows& shows, const char* lack) {
  for (const DType dtype : {DType::fp32, DType::fp64, DType::bf16, DType::fp16}) {
    std::map<std::string, bool> shown;
    for (const OpCase& one : op_cases(dtype)) {
      const std::vector<Bytes> results = run(one);
      for (std::size_t i = 0; i < one.operands.size(); ++i) {
        if (one.op->operands[i].access != access) continue;
        bool& seen =
            shown[std::string(one.op->name) + lack + std::string(one.op->operands[i].name)];
        seen = seen || shows(one, i, results);
      }
    }
    for (const auto& [statement, seen] : shown) {
      EXPECT_TRUE(seen) << dtype_name(dtype) << ": " << statement;
    }
  }
}

TEST(OpDeclarations, AccumulatedOperandsBuildOnTheirContent) {
  const auto builds = [](const OpCase& one, std::size_t i, const std::vector<Bytes>& results) {
    OpCase changed = one;
    for (std::byte& byte : changed.operands[i].bytes) byte ^= std::byte{1};
    return run(changed)[i] != results[i];
  };
  expect_of_operands(Access::accumulate, builds, " does not read ");
}

TEST(OpDeclarations, EveryReadOperandMatters) {
  const auto matters = [](const OpCase& one, std::size_t i, const std::vector<Bytes>& results) {
    OpCase changed = one;
    const std::size_t element = static_cast<std::size_t>(dtype_bytes(one.operands[i].dtype));
    const bool floating = element >= 2 && one.operands[i].dtype != DType::int32 &&
                          one.operands[i].dtype != DType::int64 &&
                          one.operands[i].dtype != DType::uint64;
    // The sign and exponent of a number, the lowest bit of an integer.
    const std::size_t offset = floating ? element - 1 : 0;
    for (std::size_t byte = offset; byte < changed.operands[i].bytes.size(); byte += element) {
      changed.operands[i].bytes[byte] ^= std::byte{1};
    }
    std::vector<Bytes> after = run(changed);
    after[i] = results[i];
    return after != results;
  };
  expect_of_operands(Access::read, matters, " ignores ");
}

TEST(OpKernels, GiveTheSameBitsEveryTime) {
  for (const OpCase& one : all_cases()) EXPECT_EQ(run(one), run(one)) << one.op->name;
}

template <typename T>
double number_of(const Bytes& bytes, std::size_t index) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof(value), sizeof(value));
  return static_cast<double>(value);
}

double number(const Bytes& bytes, DType dtype, std::size_t index) {
  switch (dtype) {
    case DType::fp64:
      return number_of<double>(bytes, index);
    case DType::bf16:
      return number_of<BFloat16>(bytes, index);
    case DType::fp16:
      return number_of<Float16>(bytes, index);
    default:
      return number_of<float>(bytes, index);
  }
}

/// Half a unit in the last place of 1: the error of rounding once. fp32 kernels round every step.
double rounding_error(DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return 0x1p-8;
    case DType::fp16:
      return 0x1p-11;
    default:
      return 0.0;
  }
}

class AgreementWithFp64 : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Each, AgreementWithFp64,
                         ::testing::Values(DType::fp32, DType::bf16, DType::fp16),
                         [](const auto& type) { return std::string(dtype_name(type.param)); });

TEST_P(AgreementWithFp64, IsThatOfFp32ArithmeticRoundedOnce) {
  const std::vector<OpCase> narrow = op_cases(GetParam());
  const std::vector<OpCase> wide = op_cases(DType::fp64);
  ASSERT_EQ(narrow.size(), wide.size());
  for (std::size_t one = 0; one < narrow.size(); ++one) {
    const std::vector<Bytes> narrow_result = run(narrow[one]);
    const std::vector<Bytes> wide_result = run(wide[one]);
    for (std::size_t i = 0; i < narrow[one].operands.size(); ++i) {
      const DType dtype = narrow[one].operands[i].dtype;
      const DType wide_dtype = wide[one].operands[i].dtype;
      if (dtype != GetParam() && dtype != DType::fp32) continue;
      const auto count = static_cast<std::size_t>(narrow[one].operands[i].shape.elements());
      for (std::size_t element = 0; element < count; ++element) {
        const double expected = number(wide_result[i], wide_dtype, element);
        const double actual = number(narrow_result[i], dtype, element);
        if (std::isnan(expected) && std::isnan(actual)) continue;
        const double tolerance =
            rounding_error(dtype) * std::abs(expected) + 1e-5 * std::max(1.0, std::abs(expected));
        EXPECT_NEAR(actual, expected, tolerance)
            << narrow[one].op->name << " " << narrow[one].op->operands[i].name << " " << element;
      }
    }
  }
}

TEST(OpKernels, RefuseTypesWithoutAReferenceKernel) {
  for (const OpCase& one : op_cases(DType::fp32)) {
    if (one.op->name != "add" && one.op->name != "gemm") continue;
    std::vector<TensorView> views;
    for (const OperandContent& operand : one.operands) {
      views.push_back({const_cast<std::byte*>(operand.bytes.data()), DType::int32, operand.shape});
    }
    HostStream stream;
    EXPECT_THROW(one.launch(stream, views), InternalError) << one.op->name;
  }
}

}  // namespace
}  // namespace cgconform::workloads::test

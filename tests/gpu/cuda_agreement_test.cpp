#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/workloads/op_cases.hpp"
#include "tests/workloads/training_legs.hpp"
#include "workloads/allocator/caching_allocator.hpp"
#include "workloads/device/cuda/cuda_device.hpp"

namespace cgconform::workloads {
namespace {

using test::OpCase;
using test::OperandContent;
using testing::ObservationKey;
using testing::ObservedBytes;

/// Largest |a - b| / (1 + |b|) over the floating elements of two byte strings.
template <typename T>
double largest_difference(const std::vector<std::byte>& a, const std::vector<std::byte>& b) {
  double largest = 0.0;
  for (std::size_t at = 0; at + sizeof(T) <= a.size(); at += sizeof(T)) {
    T left{};
    T right{};
    std::memcpy(&left, a.data() + at, sizeof(T));
    std::memcpy(&right, b.data() + at, sizeof(T));
    if (std::isnan(left) && std::isnan(right)) continue;
    const double difference = std::abs(static_cast<double>(left) - static_cast<double>(right));
    largest = std::max(largest, difference / (1.0 + std::abs(static_cast<double>(right))));
  }
  return largest;
}

/// The tolerance of one op: kernels of the two devices add up in different orders.
double op_tolerance(DType dtype) {
  return dtype == DType::fp64 ? 1e-13 : 1e-5;
}

std::vector<std::vector<std::byte>> run_on(Device& device, const OpCase& op_case) {
  const std::unique_ptr<Stream> stream = device.create_stream("op test");
  CachingAllocator allocator(device.segment_source());
  std::vector<Buffer> buffers;
  std::vector<TensorView> views;
  for (const OperandContent& operand : op_case.operands) {
    buffers.emplace_back(allocator, *stream, default_pool, operand.dtype, operand.shape, "operand");
    stream->upload(buffers.back().view(), operand.bytes.data(), false, "operand");
    views.push_back(buffers.back().view());
  }
  op_case.launch(*stream, views);
  std::vector<std::vector<std::byte>> results;
  for (const TensorView& view : views) {
    results.emplace_back(static_cast<std::size_t>(view.bytes()));
    stream->download(results.back().data(), view);
  }
  return results;
}

class CudaAgreement : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "this machine has no NVIDIA device";
    cuda_ = create_cuda_device({});
    reference_ = create_reference_device({.arena_bytes = 64 << 20});
  }

  std::unique_ptr<Device> cuda_;
  std::unique_ptr<Device> reference_;
};

TEST_F(CudaAgreement, EveryOpAgreesWithItsReferenceKernel) {
  for (const DType dtype : {DType::fp32, DType::fp64}) {
    for (const OpCase& op_case : test::op_cases(dtype)) {
      SCOPED_TRACE(std::string(op_case.op->name) + " " + std::string(dtype_name(dtype)));
      const auto expected = run_on(*reference_, op_case);
      const auto actual = run_on(*cuda_, op_case);
      for (std::size_t operand = 0; operand < expected.size(); ++operand) {
        SCOPED_TRACE(op_case.op->operands[operand].name);
        const DType type = op_case.operands[operand].dtype;
        if (type == DType::fp32) {
          EXPECT_LE(largest_difference<float>(actual[operand], expected[operand]),
                    op_tolerance(type));
        } else if (type == DType::fp64) {
          EXPECT_LE(largest_difference<double>(actual[operand], expected[operand]),
                    op_tolerance(type));
        } else if (op_case.op->name != "compare") {
          EXPECT_EQ(actual[operand], expected[operand]);
        }
      }
    }
  }
}

ObservedBytes train_on(Device& device, const matrix::Cell& cell) {
  const LegRecord record = run_leg(cell, {}, {.device = device, .seed = 11});
  EXPECT_EQ(record.error, "");
  return testing::bytes_of(record, device);
}

TEST_F(CudaAgreement, WholeTrainingStepsAgreeWithTheReferenceDevice) {
  matrix::Cell cell = testing::small_cell();
  cell.config.params_dtype = matrix::ParamsDtype::fp64;
  const ObservedBytes expected = train_on(*reference_, cell);
  const ObservedBytes actual = train_on(*cuda_, cell);
  ASSERT_EQ(actual.size(), expected.size());
  for (const auto& [key, bytes] : expected) {
    const auto found = actual.find(key);
    ASSERT_NE(found, actual.end()) << testing::key_text(key);
    const ObservedQuantity quantity = std::get<0>(key);
    if (quantity == ObservedQuantity::main_grad || quantity == ObservedQuantity::loss) {
      // Four Adam steps amplify rounding; masks and data are equal bit for bit.
      EXPECT_LE(largest_difference<double>(found->second, bytes), 1e-8) << testing::key_text(key);
    } else if (quantity == ObservedQuantity::rng_state ||
               quantity == ObservedQuantity::dropout_mask) {
      EXPECT_EQ(found->second, bytes) << testing::key_text(key);
    }
  }
}

TEST_F(CudaAgreement, GraphLegEqualsEagerLegBitForBit) {
  for (const bool full_iteration : {false, true}) {
    matrix::Cell cell = testing::small_cell(matrix::CudaGraphImpl::local);
    if (full_iteration) cell.config.cuda_graph_scope = {matrix::CudaGraphModule::full_iteration};
    const LegRecord eager = run_leg(cell, {}, {.device = *cuda_, .seed = 11});
    const LegRecord graph = run_leg(cell, {.kind = LegKind::graph}, {.device = *cuda_, .seed = 11});
    EXPECT_FALSE(graph.graphs.empty());
    EXPECT_EQ(testing::differences(testing::bytes_of(eager, *cuda_),
                                   testing::bytes_of(graph, *cuda_), false),
              std::vector<std::string>{});
  }
}

}  // namespace
}  // namespace cgconform::workloads

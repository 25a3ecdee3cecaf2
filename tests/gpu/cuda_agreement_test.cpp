#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "suites/checks/device_agreement.hpp"
#include "tests/workloads/training_legs.hpp"
#include "workloads/device/cuda/cuda_device.hpp"

namespace cgconform::workloads {
namespace {

class CudaAgreement : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "this machine has no NVIDIA device";
    cuda_ = create_cuda_device({});
  }

  std::unique_ptr<Device> cuda_;
};

TEST_F(CudaAgreement, OpsAndTrainingStepsAgreeWithTheReferenceDeviceInEveryType) {
  suites::ScenarioContext context;
  context.device = cuda_.get();
  context.run_eager_leg = [](Device& device, const matrix::Cell& cell) {
    return run_leg(cell, {}, {.device = device, .seed = 11});
  };
  const suites::CheckResult result = suites::checks::judge_device_agreement(context);
  EXPECT_EQ(result.verdict, suites::Verdict::pass) << result.detail;
}

TEST_F(CudaAgreement, GraphLegEqualsEagerLegBitForBit) {
  for (const auto& [dtype, full_iteration] :
       {std::pair{matrix::ParamsDtype::fp32, false}, std::pair{matrix::ParamsDtype::fp32, true},
        std::pair{matrix::ParamsDtype::bf16, false}, std::pair{matrix::ParamsDtype::fp16, true}}) {
    matrix::Cell cell = testing::small_cell(matrix::CudaGraphImpl::local);
    cell.config.params_dtype = dtype;
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

#include "suites/checks/device_agreement.hpp"

#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "workloads/device/device.hpp"
#include "workloads/training/leg.hpp"

namespace cgconform::suites {
namespace {

using testing::HasSubstr;

class DeviceAgreement : public testing::Test {
 protected:
  /// Trains on the judged device from `seed`, on the reference device from 1.
  CheckResult judge(std::uint64_t seed) {
    ScenarioContext context;
    context.run_eager_leg = [&](workloads::Device& chosen, const matrix::Cell& cell) {
      const std::uint64_t own = &chosen == reference_.get() ? 1 : seed;
      return workloads::run_leg(cell, {}, {.device = chosen, .seed = own});
    };
    return checks::judge_agreement(*device_, *reference_, context);
  }

 private:
  std::unique_ptr<workloads::Device> device_ =
      workloads::create_reference_device({.arena_bytes = 64 << 20});
  std::unique_ptr<workloads::Device> reference_ =
      workloads::create_reference_device({.arena_bytes = 64 << 20});
};

TEST_F(DeviceAgreement, HoldsForTwoDevicesThatDoTheSame) {
  const CheckResult result = judge(1);
  EXPECT_EQ(result.verdict, Verdict::pass) << result.detail;
  EXPECT_THAT(result.detail, HasSubstr("tensors of ops and training steps agree"));
}

TEST_F(DeviceAgreement, IsBrokenByADeviceThatTrainsOtherwise) {
  const CheckResult result = judge(2);
  EXPECT_EQ(result.verdict, Verdict::fail_numeric_mismatch);
  EXPECT_THAT(result.detail, HasSubstr("training in fp32 (model=dense): step 0"));
}

}  // namespace
}  // namespace cgconform::suites

#include "suites/checks/illegal_calls.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "workloads/device/device.hpp"

namespace cgconform::suites::checks {
namespace {

using testing::HasSubstr;
using workloads::ErrorCategory;

class IllegalCallsTest : public testing::Test {
 protected:
  std::unique_ptr<workloads::Device> device_ = workloads::create_reference_device({});
};

TEST_F(IllegalCallsTest, EachGivesItsCodeAndLeavesTheDeviceUsable) {
  ScenarioContext context{.device = device_.get()};
  const CheckResult result = judge_capture_rules(context);
  EXPECT_EQ(result.verdict, Verdict::pass) << result.detail;
  EXPECT_GE(illegal_calls().size(), 19U);
}

TEST_F(IllegalCallsTest, DetectsACallThatGivesAnotherCode) {
  std::vector<IllegalCall> calls(illegal_calls().begin(), illegal_calls().end());
  for (std::size_t i = 0; i < calls.size(); ++i) {
    IllegalCall wrong = calls[i];
    wrong.expected = ErrorCategory::launch_failure;
    const CheckResult result = judge_illegal_calls(*device_, std::span(&wrong, 1));
    EXPECT_EQ(result.verdict, Verdict::fail_capture) << wrong.name;
    EXPECT_THAT(result.detail, HasSubstr("launch_failure"));
  }
}

TEST_F(IllegalCallsTest, DetectsACallThatIsNotRefused) {
  const IllegalCall harmless{"nothing illegal", ErrorCategory::stream_capture_unsupported,
                             [](CaptureScene&) {}};
  const CheckResult result = judge_illegal_calls(*device_, std::span(&harmless, 1));
  EXPECT_EQ(result.verdict, Verdict::fail_capture);
}

}  // namespace
}  // namespace cgconform::suites::checks

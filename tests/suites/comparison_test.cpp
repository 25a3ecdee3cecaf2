#include "suites/comparison.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "suites/checks/comparator_cases.hpp"
#include "tests/suites/synthetic_legs.hpp"

namespace cgconform::suites {
namespace {

using testing::HasSubstr;

/// Lies in a fixed way, whatever it is given.
class FixedComparator final : public TensorComparator {
 public:
  explicit FixedComparator(std::int64_t bad_count) : bad_count_(bad_count) {}
  std::vector<Comparison> compare(std::span<const ComparisonPair> pairs,
                                  const Tolerance& /*tolerance*/) override {
    std::vector<Comparison> outcomes;
    for (const ComparisonPair& pair : pairs) {
      outcomes.push_back({.element_count = pair.expected.elements(),
                          .bad_count = bad_count_,
                          .first_bad_index = bad_count_ > 0 ? 5 : -1,
                          .actual = bad_count_ > 0 ? 1.0 : 0.0,
                          .max_abs = bad_count_ > 0 ? 1.0 : 0.0});
    }
    return outcomes;
  }

 private:
  std::int64_t bad_count_;
};

/// Forgets to answer for the last pair.
class ShortComparator final : public TensorComparator {
 public:
  std::vector<Comparison> compare(std::span<const ComparisonPair> pairs,
                                  const Tolerance& /*tolerance*/) override {
    return std::vector<Comparison>(pairs.size() - 1);
  }
};

/// Compares the control pairs of a batch, which stand last, and calls all others equal.
class OnlyControlsComparator final : public TensorComparator {
 public:
  explicit OnlyControlsComparator(TensorComparator& honest) : honest_(honest) {}
  std::vector<Comparison> compare(std::span<const ComparisonPair> pairs,
                                  const Tolerance& tolerance) override {
    constexpr std::size_t control_pairs = 2;
    std::vector<ComparisonPair> batch(pairs.begin(), pairs.end());
    for (std::size_t i = 0; i + control_pairs < batch.size(); ++i) {
      batch[i].actual = batch[i].expected;
    }
    return honest_.compare(batch, tolerance);
  }

 private:
  TensorComparator& honest_;
};

class ComparisonTest : public testing::Test {
 protected:
  SyntheticLegs legs_;
  std::unique_ptr<TensorComparator> comparator_ = create_device_comparator(legs_.device());
};

TEST_F(ComparisonTest, DeviceComparatorGivesTheKnownAnswers) {
  const CheckResult result = checks::judge_comparator(legs_.device(), *comparator_);
  EXPECT_EQ(result.verdict, Verdict::pass) << result.detail;
}

TEST_F(ComparisonTest, KnownAnswersDetectAComparatorThatSaysEqualOrDifferent) {
  FixedComparator equal(0);
  FixedComparator different(1);
  EXPECT_EQ(checks::judge_comparator(legs_.device(), equal).verdict, Verdict::fail_suite);
  EXPECT_EQ(checks::judge_comparator(legs_.device(), different).verdict, Verdict::fail_suite);
}

TEST_F(ComparisonTest, ControlHoldsForTheDeviceComparator) {
  ControlledComparator controlled(legs_.device(), *comparator_);
  workloads::CachingAllocator allocator(legs_.device().segment_source());
  using workloads::DType;
  for (const DType dtype : {DType::fp32, DType::fp64, DType::bf16, DType::fp16, DType::int32,
                            DType::int64, DType::uint64, DType::uint8}) {
    const workloads::Buffer buffer(allocator, legs_.stream(), workloads::default_pool, dtype,
                                   workloads::Shape{3}, "test");
    const ComparisonPair pair{buffer.view(), buffer.view()};
    EXPECT_TRUE(controlled.compare({pair}, {}).at(0).equal());
    EXPECT_TRUE(controlled.compare({pair}, {.relative = 1e-3}).at(0).equal());
    EXPECT_EQ(controlled.control_failure(), "") << workloads::dtype_name(dtype);
  }
  EXPECT_EQ(controlled.controls(), 16U);
  EXPECT_EQ(controlled.comparisons(), 16U) << "control pairs are not counted";
}

TEST_F(ComparisonTest, ControlTensorsServeOneComparatorAfterAnother) {
  const auto controls = std::make_shared<ControlTensors>(legs_.device());
  const auto tensor = legs_.tensor(1.0F);
  const ComparisonPair pair{tensor.view(), tensor.view()};
  ControlledComparator first(legs_.device(), *comparator_, controls);
  EXPECT_TRUE(first.compare({pair}, {}).at(0).equal());
  const workloads::ResourceUse held = legs_.device().resource_use();

  FixedComparator equal(0);
  ControlledComparator liar(legs_.device(), equal, controls);
  liar.compare({pair}, {});
  EXPECT_NE(liar.control_failure(), "") << "the controls still tell the liar";
  ControlledComparator honest(legs_.device(), *comparator_, controls);
  EXPECT_TRUE(honest.compare({pair}, {}).at(0).equal());
  EXPECT_EQ(honest.control_failure(), "");
  EXPECT_EQ(legs_.device().resource_use(), held) << "nothing is made for the next comparator";
}

TEST_F(ComparisonTest, AStrayWriteIntoControlTensorsIsNotHeldAgainstTheNextComparator) {
  const auto controls = std::make_shared<ControlTensors>(legs_.device());
  const auto tensor = legs_.tensor(1.0F);
  const ComparisonPair pair{tensor.view(), tensor.view()};
  ControlledComparator hit(legs_.device(), *comparator_, controls);
  hit.compare({pair}, {});
  legs_.stream().fill(controls->different(workloads::DType::fp32).expected, 1, "stray write");
  legs_.stream().synchronize();
  hit.compare({pair}, {});
  EXPECT_NE(hit.control_failure(), "");

  ControlledComparator next(legs_.device(), *comparator_, controls);
  next.compare({pair}, {});
  EXPECT_EQ(next.control_failure(), "");
}

TEST_F(ComparisonTest, PartsOfWholesAreJudgedEachByItself) {
  const auto whole_expected = legs_.tensor(1.0F);
  const auto whole_actual = legs_.tensor(1.0F);
  const auto parts = [&] {
    std::vector<ComparisonPair> pairs;
    for (std::int64_t half = 0; half < 2; ++half) {
      const auto part = [&](const workloads::TensorView& whole) {
        return workloads::TensorView{static_cast<float*>(whole.data) + 2 * half, whole.dtype,
                                     workloads::Shape{2}};
      };
      pairs.push_back({part(whole_expected.view()), part(whole_actual.view()),
                       whole_expected.view(), whole_actual.view()});
    }
    return comparator_->compare(pairs, {});
  };
  for (const Comparison& equal : parts()) {
    EXPECT_TRUE(equal.equal());
    EXPECT_EQ(equal.element_count, 2);
  }
  const float other = -7.0F;
  legs_.stream().upload({static_cast<float*>(whole_actual.view().data) + 3, workloads::DType::fp32,
                         workloads::Shape{1}},
                        &other, false, "other");
  legs_.stream().synchronize();
  EXPECT_TRUE(parts().at(0).equal());
  EXPECT_EQ(parts().at(1).bad_count, 1);
  EXPECT_EQ(parts().at(1).first_bad_index, 1);
}

TEST_F(ComparisonTest, ControlDetectsAComparatorThatAlwaysSaysEqual) {
  FixedComparator liar(0);
  ControlledComparator controlled(legs_.device(), liar);
  const auto tensor = legs_.tensor(1.0F);
  const ComparisonPair pair{tensor.view(), tensor.view()};
  controlled.compare({pair}, {});
  EXPECT_THAT(controlled.control_failure(), HasSubstr("tensors that differ in element 5"));
}

TEST_F(ComparisonTest, ControlDetectsAComparatorThatAlwaysSaysDifferent) {
  FixedComparator liar(1);
  ControlledComparator controlled(legs_.device(), liar);
  const auto tensor = legs_.tensor(1.0F);
  const ComparisonPair pair{tensor.view(), tensor.view()};
  controlled.compare({pair}, {});
  EXPECT_THAT(controlled.control_failure(), HasSubstr("equal tensors"));
}

TEST_F(ComparisonTest, RefusesAComparatorThatForgetsPairs) {
  ShortComparator forgetful;
  ControlledComparator controlled(legs_.device(), forgetful);
  const auto tensor = legs_.tensor(1.0F);
  const ComparisonPair pair{tensor.view(), tensor.view()};
  EXPECT_THROW(controlled.compare({pair}, {}), InternalError);
}

TEST_F(ComparisonTest, AComparatorThatSaysEqualTurnsAWholeCellRed) {
  FixedComparator liar(0);
  const LegSource source = [&](const matrix::Cell& cell, const LegRequest& request) {
    return legs_.healthy(cell, request);
  };
  const RankReport report = run_cell(SyntheticLegs::cell(), {}, source, {legs_.device(), liar});
  ASSERT_NE(deciding_check(report.checks), nullptr);
  EXPECT_EQ(deciding_check(report.checks)->verdict, Verdict::fail_suite);
  EXPECT_EQ(deciding_check(report.checks)->check_id, "NUM-33");
}

TEST_F(ComparisonTest, AComparatorThatKnowsTheControlPairsTurnsAWholeCellRed) {
  OnlyControlsComparator liar(*comparator_);
  const LegSource source = [&](const matrix::Cell& cell, const LegRequest& request) {
    return legs_.healthy(cell, request);
  };
  const RankReport report = run_cell(SyntheticLegs::cell(), {}, source, {legs_.device(), liar});
  ASSERT_NE(deciding_check(report.checks), nullptr);
  EXPECT_EQ(deciding_check(report.checks)->check_id, "NUM-33");
  EXPECT_THAT(deciding_check(report.checks)->detail, HasSubstr("last of 4 elements is wrong"));
}

TEST_F(ComparisonTest, CountsAndMaximaAreThoseOfTheBadElements) {
  const auto expected = legs_.tensor(1.0F);
  const auto actual = legs_.tensor(3.0F);
  const ComparisonPair pair{expected.view(), actual.view()};
  const Comparison seen = comparator_->compare(std::span(&pair, 1), {}).at(0);
  EXPECT_EQ(seen.element_count, 4);
  EXPECT_EQ(seen.bad_count, 4);
  EXPECT_EQ(seen.expected, 1.0);
  EXPECT_EQ(seen.actual, 3.0);
  EXPECT_EQ(seen.max_abs, 2.0);
  EXPECT_EQ(seen.max_rel, 2.0);
  EXPECT_GT(seen.max_ulp, 0);
}

}  // namespace
}  // namespace cgconform::suites

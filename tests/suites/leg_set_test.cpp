#include "suites/leg_set.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/suites/synthetic_legs.hpp"

namespace cgconform::suites {
namespace {

struct Shown {
  Shown(float shown) : value(shown) {}  // NOLINT(google-explicit-constructor): a loss
  Shown(const char* name, float shown) : tensor(name), value(shown) {}

  std::string tensor = "loss";
  float value;
};

/// Legs that show numbers, most of them in one place, one after another.
class LegSetTest : public ::testing::Test {
 protected:
  LegRecord showing(const std::vector<Shown>& shown) {
    LegRecord record;
    for (const auto& [tensor, value] : shown) {
      record.observations.push_back(
          {ObservedQuantity::loss, {.step = 1, .tensor = tensor}, synthetic_.tensor(value)});
    }
    return record;
  }

  const LegDifference& difference(const std::vector<Shown>& expected,
                                  const std::vector<Shown>& actual) {
    legs_.emplace(cell_, controlled_);
    legs_->add(eager_leg(), {.leg = showing(expected), .ran = true});
    legs_->add(graph_leg(), {.leg = showing(actual), .ran = true});
    return legs_->difference(eager_leg(), graph_leg());
  }

  SyntheticLegs synthetic_;
  matrix::Cell cell_ = SyntheticLegs::cell();
  std::unique_ptr<TensorComparator> comparator_ = create_device_comparator(synthetic_.device());
  ControlledComparator controlled_{synthetic_.device(), *comparator_};
  std::optional<LegSet> legs_;
};

TEST_F(LegSetTest, ObservationsOfOnePlaceAreComparedInTheirOrder) {
  EXPECT_EQ(difference({1, 2, 3}, {1, 2, 3}).first(), nullptr);
  const LegDifference& swapped = difference({1, 2, 3}, {1, 3, 2});
  ASSERT_EQ(swapped.outcomes.size(), 3U);
  EXPECT_FALSE(swapped.outcomes[0].differs());
  EXPECT_TRUE(swapped.outcomes[1].differs());
  EXPECT_EQ(swapped.outcomes[1].comparison.actual, 3.0);
  EXPECT_TRUE(swapped.outcomes[2].differs());
}

TEST_F(LegSetTest, PlacesAreFoundInWhateverOrderALegShowsThem) {
  const std::vector<Shown> expected{{"a", 1}, {"b", 2}, {"a", 3}, {"c", 4}, {"b", 5}};
  const std::vector<Shown> actual{{"a", 1}, {"c", 4}, {"b", 2}, {"b", 5}, {"a", 3}};
  const LegDifference& reordered = difference(expected, actual);
  EXPECT_EQ(reordered.outcomes.size(), expected.size());
  EXPECT_EQ(reordered.first(), nullptr);
}

TEST_F(LegSetTest, AnObservationThatOneLegMadeLessOftenIsMissingThere) {
  const LegDifference& fewer = difference({1, 2}, {1});
  ASSERT_EQ(fewer.outcomes.size(), 2U);
  EXPECT_FALSE(fewer.outcomes[0].differs());
  EXPECT_TRUE(fewer.outcomes[1].missing_in_actual);
  const LegDifference& more = difference({1}, {1, 2});
  ASSERT_EQ(more.outcomes.size(), 2U);
  EXPECT_TRUE(more.outcomes[1].missing_in_expected);
}

TEST_F(LegSetTest, ADifferenceOutlivesTheLegThatItWasFoundIn) {
  const LegDifference& swapped = difference({1, 2}, {1, 3});
  legs_->add(graph_leg(), {.leg = showing({9}), .ran = true});
  EXPECT_EQ(swapped.first()->where.tensor, "loss");
  EXPECT_EQ(swapped.first()->where.step, 1);
}

}  // namespace
}  // namespace cgconform::suites

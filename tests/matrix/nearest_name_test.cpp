#include "matrix/nearest_name.hpp"

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace cgconform::matrix {
namespace {

constexpr std::array<std::string_view, 3> known{"local", "transformer_engine", "none"};

TEST(NearestName, FindsTheNameBehindATypingError) {
  EXPECT_EQ(nearest_name("lcoal", known), "local");
  EXPECT_EQ(nearest_name("transformer-engine", known), "transformer_engine");
  EXPECT_EQ(nearest_name("NONE", known), "none");
}

TEST(NearestName, FindsTheNameThatContainsTheGivenOne) {
  EXPECT_EQ(nearest_name("engine", known), "transformer_engine");
}

TEST(NearestName, IsEmptyWhereNothingIsNear) {
  EXPECT_EQ(nearest_name("quantum", known), "");
  EXPECT_EQ(nearest_hint("quantum", known), "; known are local, transformer_engine, none");
}

TEST(NearestName, OfManyNamesGivesTheFirstAndCountsTheRest) {
  std::vector<std::string> names;
  for (int i = 0; i < 100; ++i) names.push_back("row " + std::to_string(i));
  const std::vector<std::string_view> views(names.begin(), names.end());
  const std::string hint = nearest_hint("quantum", views);
  EXPECT_EQ(hint.find("; known are row 0, row 1, "), 0U) << hint;
  EXPECT_NE(hint.find("row 23 and 76 more"), std::string::npos) << hint;
  EXPECT_EQ(hint.find("row 24"), std::string::npos) << hint;
}

TEST(NearestName, CountsASwapOfNeighboursAsOneEdit) {
  EXPECT_EQ(edit_distance("lcoal", "local"), 1U);
}

}  // namespace
}  // namespace cgconform::matrix

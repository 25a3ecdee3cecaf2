#include "matrix/nearest_name.hpp"

#include <array>

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

TEST(NearestName, CountsASwapOfNeighboursAsOneEdit) {
  EXPECT_EQ(edit_distance("lcoal", "local"), 1U);
}

}  // namespace
}  // namespace cgconform::matrix

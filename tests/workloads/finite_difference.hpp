#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <string>

#include <gtest/gtest.h>

#include "tests/workloads/host_tensor.hpp"

namespace cgconform::workloads::test {

inline double dot(const HostTensor<double>& a, const HostTensor<double>& b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

/// Slope of `loss` along `coordinate` by the central difference of fourth order, whose error in
/// fp64 is about 1e-10 for functions of order one.
inline double slope(const std::function<double()>& loss, double& coordinate) {
  constexpr double step = 1e-4;
  const double centre = coordinate;
  const auto at = [&](double offset) {
    coordinate = centre + offset;
    return loss();
  };
  const double near = at(step) - at(-step);
  const double far = at(2 * step) - at(-2 * step);
  coordinate = centre;
  return (8.0 * near - far) / (12.0 * step);
}

/// Expects `gradient` to be that of `loss` by every element of `input`.
inline void expect_gradient(const std::function<double()>& loss, HostTensor<double>& input,
                            const HostTensor<double>& gradient, const std::string& name) {
  ASSERT_EQ(input.size(), gradient.size()) << name;
  for (std::size_t i = 0; i < input.size(); ++i) {
    const double expected = slope(loss, input[i]);
    EXPECT_NEAR(gradient[i], expected, 1e-7 * std::max(1.0, std::abs(expected)))
        << name << " element " << i;
  }
  loss();
}

}  // namespace cgconform::workloads::test

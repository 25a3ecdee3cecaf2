#include "workloads/ops/fp8.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/workloads/fp8_cell.hpp"
#include "tests/workloads/model_fixture.hpp"
#include "workloads/layers/fp8_linear.hpp"
#include "workloads/training/tensor_ops.hpp"

namespace cgconform::workloads::test {
namespace {

using matrix::CudaGraphImpl;
using matrix::Fp8Format;
using matrix::Fp8Recipe;
using testing::fp8_cell;

const FaultSwitches no_faults;
constexpr std::array formats{EightBitFormat::e4m3, EightBitFormat::e5m2};

/// The value of a code by the formulas of the OCP specification, in double.
double specified_value(int code, EightBitFormat format) {
  const bool e4m3 = format == EightBitFormat::e4m3;
  const int mantissas = e4m3 ? 8 : 4;
  const double bias = e4m3 ? 7.0 : 15.0;
  const double sign = code >= 128 ? -1.0 : 1.0;
  const int exponent = code % 128 / mantissas;
  const double fraction = static_cast<double>(code % mantissas) / mantissas;
  if (e4m3 && code % 128 == 127) return std::nan("");
  if (!e4m3 && exponent == 31) return fraction == 0.0 ? sign * HUGE_VAL : std::nan("");
  if (exponent == 0) return sign * std::pow(2.0, 1.0 - bias) * fraction;
  return sign * std::pow(2.0, exponent - bias) * (1.0 + fraction);
}

/// The finite code nearest to `value`, by looking at all; of two, the even one.
int nearest_code(double value, EightBitFormat format) {
  int nearest = std::signbit(value) ? 128 : 0;
  for (int code = nearest; code < nearest + 128; ++code) {
    const double distance = std::abs(specified_value(code, format) - value);
    const double least = std::abs(specified_value(nearest, format) - value);
    if (distance < least || (distance == least && code % 2 == 0)) nearest = code;
    if (code % 128 == 127) break;
  }
  return nearest;
}

TEST(EightBits, HaveTheValuesOfTheSpecification) {
  for (const EightBitFormat format : formats) {
    for (int code = 0; code < 256; ++code) {
      const double expected = specified_value(code, format);
      const double value = eight_bit::value_of(static_cast<std::uint8_t>(code), format);
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(value)) << code;
      } else {
        EXPECT_EQ(value, expected) << code;
        EXPECT_EQ(std::signbit(value), code >= 128) << code;
      }
    }
  }
  EXPECT_EQ(eight_bit::value_of(0x7E, EightBitFormat::e4m3), 448.0F);
  EXPECT_EQ(eight_bit::value_of(0x7B, EightBitFormat::e5m2), 57344.0F);
}

TEST(EightBits, OfEveryFiniteNumberAreItsOwn) {
  for (const EightBitFormat format : formats) {
    for (int code = 0; code < 256; ++code) {
      const double value = specified_value(code, format);
      if (!std::isfinite(value)) continue;
      EXPECT_EQ(eight_bit::bits_of(static_cast<float>(value), format), code);
    }
  }
}

TEST(EightBits, AreTheNearestNumberAndOfTwoTheEvenOne) {
  std::mt19937_64 random(5);
  std::uniform_real_distribution<float> mantissa(-1.0F, 1.0F);
  for (const EightBitFormat format : formats) {
    std::vector<float> numbers;
    for (int code = 0; code < 255; ++code) {
      const double value = specified_value(code, format);
      const double next = specified_value(code + 1, format);
      if (!std::isfinite(value) || !std::isfinite(next) || code == 127) continue;
      const auto middle = static_cast<float>((value + next) / 2.0);
      for (const float towards : {0.0F, 2.0F * middle}) {
        numbers.push_back(std::nextafter(middle, towards));
      }
      numbers.push_back(middle);
    }
    const int most = format == EightBitFormat::e4m3 ? 8 : 15;
    for (int i = 0; i < 2000; ++i) {
      numbers.push_back(std::ldexp(mantissa(random), most - i % 32));
    }
    for (const float number : numbers) {
      EXPECT_EQ(eight_bit::bits_of(number, format), nearest_code(number, format)) << number;
    }
  }
}

TEST(EightBits, SaturateAndKeepWhatIsNoNumber) {
  for (const EightBitFormat format : formats) {
    const float largest = eight_bit::layout_of(format).largest;
    EXPECT_EQ(eight_bit::value_of(eight_bit::bits_of(1e30F, format), format), largest);
    EXPECT_EQ(eight_bit::value_of(eight_bit::bits_of(-HUGE_VALF, format), format), -largest);
    EXPECT_TRUE(std::isnan(eight_bit::value_of(eight_bit::bits_of(std::nanf(""), format), format)));
    EXPECT_EQ(eight_bit::bits_of(-0.0F, format), 0x80);
  }
}

/// x scaled, rounded to 8 bits and scaled back, in double.
std::vector<double> rounded(const std::vector<double>& x, double scale, EightBitFormat format) {
  std::vector<double> result;
  for (const double value : x) {
    const float scaled = static_cast<float>(value) * static_cast<float>(scale);
    result.push_back(
        static_cast<double>(eight_bit::value_of(eight_bit::bits_of(scaled, format), format)) /
        scale);
  }
  return result;
}

double largest_of(const std::vector<double>& values) {
  double largest = 0.0;
  for (const double value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

/// Sum over i of a[row, i] * b[i, column], where either may be given transposed.
double product(const std::vector<double>& a, std::int64_t stride_row, std::int64_t stride_i,
               const std::vector<double>& b, std::int64_t stride_b_i, std::int64_t stride_column,
               std::int64_t row, std::int64_t column, std::int64_t count) {
  double sum = 0.0;
  for (std::int64_t i = 0; i < count; ++i) {
    sum += a[static_cast<std::size_t>(row * stride_row + i * stride_i)] *
           b[static_cast<std::size_t>(i * stride_b_i + column * stride_column)];
  }
  return sum;
}

class Fp8LinearShapes : public ::testing::TestWithParam<std::uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Random, Fp8LinearShapes, ::testing::Range<std::uint64_t>(0, 8));

TEST_P(Fp8LinearShapes, MultiplyWhatWasRoundedForwardAndBackward) {
  LayerFixture f;
  Random random(GetParam());
  const std::int64_t rows = random_extent(random, 1, 7);
  const std::int64_t in = random_extent(random, 1, 9);
  const std::int64_t out = random_extent(random, 1, 9);
  const bool hybrid = random() % 2 == 0;
  const auto cell = fp8_cell(CudaGraphImpl::none, hybrid ? Fp8Format::hybrid : Fp8Format::e4m3,
                             Fp8Recipe::tensorwise);
  Fp8State state(cell, f.allocator, *f.stream, nullptr);
  const auto numbers = [&](const Shape& shape) { return random_tensor<float>(random, shape); };
  const Buffer weight = f.put(numbers({out, in}));
  const Buffer main_grad = f.put(HostTensor<float>(Shape{out, in}, 0.0F));
  const Fp8Linear linear(state, {"weight", weight.view(), main_grad.view()});
  state.initialise();
  const Buffer x = f.put(numbers({rows, in}));
  const Buffer grad = f.put(numbers({rows, out}));
  LayerContext context = f.context();
  const Buffer y = linear.forward(context, x.view(), "linear");
  const Buffer grad_x = linear.backward(context, grad.view(), x.view(), "linear");

  const EightBitFormat of_gradients = hybrid ? EightBitFormat::e5m2 : EightBitFormat::e4m3;
  const auto seen = [&](const Buffer& tensor, EightBitFormat format) {
    const std::vector<double> values = f.get(tensor.view());
    const float scale =
        eight_bit::layout_of(format).largest / static_cast<float>(largest_of(values));
    return rounded(values, scale, format);
  };
  const auto qx = seen(x, EightBitFormat::e4m3);
  const auto qw = seen(weight, EightBitFormat::e4m3);
  const auto qg = seen(grad, of_gradients);
  const auto near = [](double actual, double expected) {
    EXPECT_NEAR(actual, expected, 1e-5 * std::max(1.0, std::abs(expected)));
  };
  const std::vector<double> actual_y = f.get(y.view());
  const std::vector<double> actual_grad_x = f.get(grad_x.view());
  const std::vector<double> actual_grad_w = f.get(main_grad.view());
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t o = 0; o < out; ++o) {
      near(actual_y[static_cast<std::size_t>(row * out + o)],
           product(qx, in, 1, qw, 1, in, row, o, in));
    }
    for (std::int64_t i = 0; i < in; ++i) {
      near(actual_grad_x[static_cast<std::size_t>(row * in + i)],
           product(qg, out, 1, qw, in, 1, row, i, out));
    }
  }
  for (std::int64_t o = 0; o < out; ++o) {
    for (std::int64_t i = 0; i < in; ++i) {
      near(actual_grad_w[static_cast<std::size_t>(o * in + i)],
           product(qg, 1, out, qx, in, 1, o, i, rows));
    }
  }
}

TEST(Fp8Linear, HasOneScaleForRowsThatLieInSeveralPlaces) {
  for (const Fp8Recipe recipe : {Fp8Recipe::tensorwise, Fp8Recipe::delayed}) {
    LayerFixture f;
    Random random(3);
    Fp8State state(fp8_cell(CudaGraphImpl::none, Fp8Format::hybrid, recipe), f.allocator, *f.stream,
                   nullptr);
    const auto numbers = [&](const Shape& shape) { return random_tensor<float>(random, shape); };
    const Buffer weight = f.put(numbers({3, 4}));
    const Buffer main_grad = f.put(HostTensor<float>(Shape{3, 4}, 0.0F));
    const Buffer grad_of_parts = f.put(HostTensor<float>(Shape{3, 4}, 0.0F));
    const Fp8Linear whole(state, {"weight", weight.view(), main_grad.view()});
    const Fp8Linear in_parts(state, {"weight", weight.view(), grad_of_parts.view()});
    state.initialise();
    const Buffer x = f.put(numbers({6, 4}));
    const Buffer grad = f.put(numbers({6, 3}));
    const Buffer y = f.put(HostTensor<float>(Shape{6, 3}, 0.0F));
    const Buffer grad_x = f.put(HostTensor<float>(Shape{6, 4}, 0.0F));
    LayerContext context = f.context();
    std::vector<LinearRows> parts;
    std::vector<LinearGradRows> grad_parts;
    for (const auto& range : {std::pair{4, 2}, std::pair{0, 1}, std::pair{1, 3}}) {
      const auto part = [&](const Buffer& of) {
        return rows_of(of.view(), range.first, range.second);
      };
      parts.push_back({part(x), part(y)});
      grad_parts.push_back({part(grad), part(x), part(grad_x)});
    }
    in_parts.forward(context, parts, "parts");
    in_parts.backward(context, grad_parts, "parts");
    EXPECT_EQ(f.get(whole.forward(context, x.view(), "whole").view()), f.get(y.view()));
    EXPECT_EQ(f.get(whole.backward(context, grad.view(), x.view(), "whole").view()),
              f.get(grad_x.view()));
    const std::vector<double> expected = f.get(main_grad.view());
    const std::vector<double> actual = f.get(grad_of_parts.view());
    for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(actual[i], expected[i], 1e-5);
    for (const Fp8Operand operand : {Fp8Operand::input, Fp8Operand::grad_output}) {
      EXPECT_EQ(f.get(state.scaling(1, operand).scale), f.get(state.scaling(0, operand).scale));
      if (!state.delayed()) continue;
      EXPECT_EQ(f.get(state.scaling(1, operand).amax), f.get(state.scaling(0, operand).amax));
    }
  }
}

TEST(Fp8Linear, QuantisesItsWeightWhereNoRowsCome) {
  LayerFixture f;
  Fp8State state(fp8_cell(CudaGraphImpl::none, Fp8Format::hybrid, Fp8Recipe::delayed), f.allocator,
                 *f.stream, nullptr);
  const Buffer weight = f.put(Shape{1, 2}, std::vector<float>{0.5F, -2.0F});
  const Buffer main_grad = f.put(Shape{1, 2}, std::vector<float>{0.0F, 0.0F});
  const Fp8Linear linear(state, {"weight", weight.view(), main_grad.view()});
  state.initialise();
  LayerContext context = f.context();
  state.begin_microbatch(*f.stream, 0, no_faults);
  linear.forward(context, std::span<const LinearRows>{}, "linear");
  linear.backward(context, std::span<const LinearGradRows>{}, "linear");
  EXPECT_EQ(f.get(state.refreshes()).front(), 1.0);
  EXPECT_EQ(f.get(state.scaling(0, Fp8Operand::weight).amax).front(), 2.0);
  EXPECT_EQ(f.get(state.scaling(0, Fp8Operand::input).amax).front(), 0.0);
}

struct DelayedLinear {
  explicit DelayedLinear(LayerFixture& fixture, const matrix::TrainingConfig& config = delayed())
      : f(fixture),
        state(cell_of(config), f.allocator, *f.stream, nullptr),
        weight(f.put(Shape{1, 2}, std::vector<float>{0.5F, -2.0F})),
        main_grad(f.put(Shape{1, 2}, std::vector<float>{0.0F, 0.0F})),
        linear(state, {"weight", weight.view(), main_grad.view()}) {
    state.initialise();
  }

  static matrix::TrainingConfig delayed() {
    return fp8_cell(CudaGraphImpl::none, Fp8Format::hybrid, Fp8Recipe::delayed).config;
  }
  static matrix::Cell cell_of(const matrix::TrainingConfig& config) {
    matrix::Cell cell;
    cell.config = config;
    return cell;
  }
  double amax() { return f.get(state.scaling(0, Fp8Operand::input).amax).front(); }
  double scale() { return f.get(state.scaling(0, Fp8Operand::input).scale).front(); }
  /// The scale after a step whose input has this magnitude.
  double scale_after(float magnitude) {
    LayerContext context = f.context();
    const Buffer x = f.put(Shape{1, 2}, std::vector<float>{magnitude, -magnitude / 2});
    state.begin_microbatch(*f.stream, 0, no_faults);
    linear.forward(context, x.view(), "linear");
    EXPECT_EQ(amax(), magnitude);
    state.end_step(*f.stream, no_faults);
    EXPECT_EQ(amax(), 0.0);
    return scale();
  }

  LayerFixture& f;
  Fp8State state;
  Buffer weight;
  Buffer main_grad;
  Fp8Linear linear;
};

TEST(DelayedScaling, TakesTheLargestOfTheLastStepsAndForgetsOlderOnes) {
  LayerFixture f;
  DelayedLinear one(f);
  EXPECT_EQ(one.scale(), 1.0);
  EXPECT_EQ(one.scale_after(4.0F), 112.0);
  EXPECT_EQ(one.scale_after(1.0F), 112.0);
  EXPECT_EQ(one.scale_after(2.0F), 112.0) << "4 is still in the history";
  EXPECT_EQ(one.scale_after(1.0F), 224.0) << "4 has left it";
}

TEST(DelayedScaling, TakesTheNewestStepAloneWhereAsked) {
  LayerFixture f;
  matrix::TrainingConfig config = DelayedLinear::delayed();
  config.fp8_amax_compute_algo = matrix::Fp8AmaxComputeAlgo::most_recent;
  DelayedLinear one(f, config);
  EXPECT_EQ(one.scale_after(4.0F), 112.0);
  EXPECT_EQ(one.scale_after(1.0F), 448.0);
}

TEST(DelayedScaling, HasAHistoryOfOneStepByDefaultAndLeavesAMargin) {
  LayerFixture f;
  matrix::TrainingConfig config;
  config.fp8 = Fp8Format::e4m3;
  config.fp8_margin = 2;
  DelayedLinear one(f, config);
  EXPECT_EQ(one.scale_after(4.0F), 28.0);
  EXPECT_EQ(one.scale_after(1.0F), 112.0);
}

TEST(DelayedScaling, LeavesTheMagnitudesAloneInValidationAndInForwardsThatRunAgain) {
  LayerFixture f;
  DelayedLinear one(f);
  const Buffer x = f.put(Shape{1, 2}, std::vector<float>{3.0F, 1.0F});
  LayerContext validation = f.context();
  validation.training = false;
  LayerContext again = f.context();
  again.recomputing = true;
  one.linear.forward(validation, x.view(), "linear");
  one.linear.forward(again, x.view(), "linear");
  for (const Fp8Operand operand : {Fp8Operand::input, Fp8Operand::weight}) {
    EXPECT_EQ(f.get(one.state.scaling(0, operand).amax).front(), 0.0);
  }
}

TEST(WeightCache, IsFilledInTheFirstMicrobatchOnly) {
  LayerFixture f;
  DelayedLinear one(f);
  LayerContext context = f.context();
  const Buffer x = f.put(Shape{1, 2}, std::vector<float>{1.0F, 1.0F});
  const auto output = [&](std::int32_t microbatch) {
    one.state.begin_microbatch(*f.stream, microbatch, no_faults);
    return f.get(one.linear.forward(context, x.view(), "linear").view()).front();
  };
  EXPECT_EQ(output(0), -1.5);
  f.stream->fill(one.weight.view(), 0, "new weight");
  EXPECT_EQ(output(1), -1.5) << "the weight of the first micro-batch";
  EXPECT_EQ(output(0), 0.0);
  EXPECT_EQ(f.get(one.state.refreshes()).front(), 2.0);
}

}  // namespace
}  // namespace cgconform::workloads::test

#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/workloads/finite_difference.hpp"
#include "tests/workloads/model_fixture.hpp"

namespace cgconform::workloads::test {
namespace {

TEST(Model, GradientsOfAllParametersAgreeWithFiniteDifferences) {
  LayerFixture f;
  matrix::Cell cell = small_cell();
  cell.config.hidden_dropout = 0.25F;
  cell.config.attention_dropout = 0.25F;
  cell.config.num_microbatches = 4;
  WholeModel model(f, cell);
  model.mask[2] = 0.0;
  const auto loss = [&] {
    f.reset_rng();
    return model.forward() / 4.0;
  };
  loss();
  model.backward();
  for (const StageParameter& entry : model.parameters()) {
    HostTensor<double> weight(entry.parameter.weight.shape, f.get(entry.parameter.weight));
    const HostTensor<double> gradient(weight.shape, f.get(entry.parameter.main_grad));
    const auto loss_of_weight = [&] {
      f.set(entry.parameter.weight, weight.values);
      return loss();
    };
    expect_gradient(loss_of_weight, weight, gradient, entry.name);
  }
}

TEST(Model, AnySplitOverStagesHoldsTheSameParameters) {
  LayerFixture f;
  matrix::Cell cell = small_cell();
  cell.config.num_layers = 4;
  WholeModel whole(f, cell);
  for (const int stages : {2, 4}) {
    cell.config.pipeline_model_parallel_size = stages;
    WholeModel split(f, cell);
    const auto expected = whole.parameters();
    const auto actual = split.parameters();
    ASSERT_EQ(actual.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(actual[i].name, expected[i].name);
      EXPECT_EQ(actual[i].layer, expected[i].layer);
      EXPECT_EQ(f.get(actual[i].parameter.weight), f.get(expected[i].parameter.weight))
          << expected[i].name;
    }
  }
}

TEST(Model, AnySplitOverStagesComputesTheSameLossAndGradients) {
  LayerFixture f;
  matrix::Cell cell = small_cell(matrix::ParamsDtype::fp32);
  cell.config.hidden_dropout = 0.25F;
  WholeModel whole(f, cell);
  f.reset_rng();
  const double loss = whole.forward();
  whole.backward();
  cell.config.pipeline_model_parallel_size = 2;
  WholeModel split(f, cell);
  f.reset_rng();
  EXPECT_EQ(split.forward(), loss);
  split.backward();
  EXPECT_EQ(split.gradients(), whole.gradients());
}

TEST(Model, NoTwoParametersStartFromTheSameNumbers) {
  LayerFixture f;
  WholeModel model(f, small_cell());
  std::map<std::vector<double>, std::string> seen;
  for (const StageParameter& entry : model.parameters()) {
    const auto [other, inserted] = seen.emplace(f.get(entry.parameter.weight), entry.name);
    EXPECT_TRUE(inserted) << entry.name << " equals " << other->second;
  }
}

TEST(Model, StartsFromTheSeed) {
  LayerFixture f;
  WholeModel one(f, small_cell(), 1);
  WholeModel same(f, small_cell(), 1);
  WholeModel other(f, small_cell(), 2);
  const auto weights = [&](WholeModel& model) {
    std::vector<std::vector<double>> all;
    for (const auto& entry : model.parameters()) all.push_back(f.get(entry.parameter.weight));
    return all;
  };
  EXPECT_EQ(weights(one), weights(same));
  const auto first = weights(one);
  const auto second = weights(other);
  for (std::size_t i = 0; i < first.size(); ++i) EXPECT_NE(first[i], second[i]);
}

TEST(Model, GradientsOfMicrobatchesAddUpToThoseOfTheMean) {
  LayerFixture f;
  matrix::Cell cell = small_cell();
  WholeModel once(f, cell);
  once.forward();
  once.backward();
  cell.config.num_microbatches = 4;
  WholeModel accumulated(f, cell);
  for (int microbatch = 0; microbatch < 4; ++microbatch) {
    accumulated.forward();
    accumulated.backward();
  }
  const auto expected = once.gradients();
  const auto actual = accumulated.gradients();
  for (std::size_t i = 0; i < expected.size(); ++i) {
    for (std::size_t element = 0; element < expected[i].size(); ++element) {
      EXPECT_NEAR(actual[i][element], expected[i][element], 1e-14);
    }
  }
}

TEST(Model, Fp32AgreesWithFp64) {
  LayerFixture f;
  WholeModel wide(f, small_cell(matrix::ParamsDtype::fp64));
  WholeModel narrow(f, small_cell(matrix::ParamsDtype::fp32));
  EXPECT_NEAR(narrow.forward(), wide.forward(), 1e-5);
  wide.backward();
  narrow.backward();
  const auto expected = wide.gradients();
  const auto actual = narrow.gradients();
  for (std::size_t i = 0; i < expected.size(); ++i) {
    for (std::size_t element = 0; element < expected[i].size(); ++element) {
      EXPECT_NEAR(actual[i][element], expected[i][element], 2e-5) << wide.parameters()[i].name;
    }
  }
}

TEST(Model, PaddingReachesNeitherLossNorGradients) {
  LayerFixture f;
  WholeModel model(f, small_cell());
  const std::size_t padding = 2;  // the last row of the first sequence
  model.mask[padding] = 0.0;
  model.tokens[padding] = 0;
  const double loss = model.forward();
  model.backward();
  const auto gradients = model.gradients();
  model.zero_gradients();
  model.tokens[padding] = 3;
  model.labels[padding] = 4;
  EXPECT_EQ(model.forward(), loss);
  model.backward();
  EXPECT_EQ(model.gradients(), gradients);
}

TEST(Model, TheLossMaskTakesEffect) {
  LayerFixture f;
  WholeModel model(f, small_cell());
  const double loss = model.forward();
  model.mask[0] = 0.0;
  EXPECT_NE(model.forward(), loss);
}

class Optimizers : public ::testing::TestWithParam<matrix::Optimizer> {};
INSTANTIATE_TEST_SUITE_P(Each, Optimizers,
                         ::testing::Values(matrix::Optimizer::sgd, matrix::Optimizer::adam));

TEST_P(Optimizers, BringTheLossOfOneBatchDown) {
  LayerFixture f;
  matrix::Cell cell = small_cell(matrix::ParamsDtype::fp32);
  cell.shape.optimizer = GetParam();
  WholeModel model(f, cell);
  const auto optimizer =
      make_stage_optimizer(cell, model.stage(0), f.allocator, *f.stream, nullptr);
  const double before = model.forward();
  for (int step = 0; step < 30; ++step) {
    model.zero_gradients();
    model.forward();
    model.backward();
    optimizer->step(*f.stream);
  }
  EXPECT_LT(model.forward(), 0.5 * before);
}

TEST_P(Optimizers, KeepStateForEveryParameter) {
  LayerFixture f;
  matrix::Cell cell = small_cell();
  cell.shape.optimizer = GetParam();
  WholeModel model(f, cell);
  const auto optimizer =
      make_stage_optimizer(cell, model.stage(0), f.allocator, *f.stream, nullptr);
  model.forward();
  model.backward();
  optimizer->step(*f.stream);
  std::size_t per_parameter = 0;
  for (const auto& [name, tensor] : optimizer->state()) {
    if (name == "step") {
      std::int64_t step = 0;
      f.stream->download(&step, tensor);
      EXPECT_EQ(step, 1);
      continue;
    }
    ++per_parameter;
    double sum = 0.0;
    for (const double value : f.get(tensor)) sum += std::abs(value);
    EXPECT_GT(sum, 0.0) << name << " did not change";
  }
  const std::size_t tensors = GetParam() == matrix::Optimizer::adam ? 2 : 1;
  EXPECT_EQ(per_parameter, tensors * model.parameters().size());
}

TEST(Model, RefusesConfigurationsItCannotBuild) {
  LayerFixture f;
  const auto build = [&](const matrix::Cell& cell) {
    make_stage_model(cell, 0, 0, f.allocator, *f.stream);
  };
  matrix::Cell cell = small_cell();
  cell.config.num_attention_heads = 3;
  EXPECT_THROW(build(cell), Error);
}

}  // namespace
}  // namespace cgconform::workloads::test

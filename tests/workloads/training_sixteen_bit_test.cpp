#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/workloads/model_fixture.hpp"
#include "tests/workloads/training_legs.hpp"

namespace cgconform::workloads {
namespace {

using testing::bytes_of;
using testing::differences;

class SixteenBitTraining : public testing::OneRankLegs,
                           public ::testing::WithParamInterface<matrix::ParamsDtype> {
 protected:
  matrix::Cell cell(matrix::CudaGraphImpl impl = matrix::CudaGraphImpl::none) {
    matrix::Cell cell = testing::small_cell(impl);
    cell.config.params_dtype = GetParam();
    return cell;
  }
  /// The elements of the observation, widened.
  std::vector<double> numbers(const LegRecord& record, ObservedQuantity quantity, std::int32_t step,
                              const std::string& tensor, std::int32_t microbatch = -1) {
    for (const Observation& one : record.observations) {
      if (one.quantity != quantity || one.where.step != step || one.where.tensor != tensor ||
          one.where.microbatch != microbatch) {
        continue;
      }
      const auto stream = device().create_stream("numbers");
      const TensorView& view = one.snapshot.view();
      std::vector<float> wide(static_cast<std::size_t>(view.elements()));
      std::vector<std::uint16_t> narrow(wide.size());
      if (view.dtype == DType::fp32) {
        stream->download(wide.data(), view);
      } else {
        stream->download(narrow.data(), view);
        for (std::size_t i = 0; i < wide.size(); ++i) {
          wide[i] = view.dtype == DType::bf16 ? bits_of<BFloat16>(narrow[i])
                                              : bits_of<Float16>(narrow[i]);
        }
      }
      return {wide.begin(), wide.end()};
    }
    ADD_FAILURE() << "not observed: " << tensor;
    return {};
  }

  template <typename T>
  static float bits_of(std::uint16_t bits) {
    T value;
    value.bits = bits;
    return value;
  }
  float rounded(double value) const {
    const auto narrow = static_cast<float>(value);
    return GetParam() == matrix::ParamsDtype::bf16 ? float{BFloat16(narrow)}
                                                   : float{Float16(narrow)};
  }
};
INSTANTIATE_TEST_SUITE_P(Each, SixteenBitTraining,
                         ::testing::Values(matrix::ParamsDtype::bf16, matrix::ParamsDtype::fp16),
                         [](const auto& type) {
                           return type.param == matrix::ParamsDtype::bf16 ? "bf16" : "fp16";
                         });

TEST_P(SixteenBitTraining, WritesPastTheEndsOfNoBlock) {
  for (const LegRequest& leg : {instrumented_eager, instrumented_graph}) {
    const LegRecord record = run(cell(matrix::CudaGraphImpl::local), leg);
    EXPECT_GT(record.guards_inspected, 0U);
    EXPECT_EQ(record.damaged_guards.size(), 0U) << record.damaged_guards.front().label;
  }
}

TEST_P(SixteenBitTraining, GraphsOfLayersEqualEagerBitForBit) {
  const matrix::Cell graphed = cell(matrix::CudaGraphImpl::local);
  const LegRecord expected = run(graphed, instrumented_eager);
  const LegRecord actual = run(graphed, instrumented_graph);
  EXPECT_EQ(actual.error, "");
  EXPECT_FALSE(actual.graphs.empty());
  EXPECT_EQ(differences(bytes_of(expected, device()), bytes_of(actual, device())),
            std::vector<std::string>{});
}

TEST_P(SixteenBitTraining, AGraphOfTheIterationEqualsEagerBitForBit) {
  matrix::Cell graphed = cell(matrix::CudaGraphImpl::local);
  graphed.config.cuda_graph_scope = {matrix::CudaGraphModule::full_iteration};
  const LegRecord expected = run(graphed, eager);
  const LegRecord actual = run(graphed, graph);
  EXPECT_EQ(actual.error, "");
  EXPECT_EQ(differences(bytes_of(expected, device()), bytes_of(actual, device()), false),
            std::vector<std::string>{});
}

TEST_P(SixteenBitTraining, WeightsAreTheRoundedFp32MainWeights) {
  const LegRecord record = run(cell(), eager);
  const std::string name = "mlp.linear_fc1.weight";
  const auto weights = numbers(record, ObservedQuantity::weight, 3, "weight:" + name);
  const auto main =
      numbers(record, ObservedQuantity::optimizer_state, 3, "main_weight:layers.0." + name);
  ASSERT_EQ(weights.size(), main.size());
  bool finer = false;
  for (std::size_t i = 0; i < main.size(); ++i) {
    EXPECT_EQ(weights[i], rounded(main[i])) << i;
    finer = finer || main[i] != weights[i];
  }
  EXPECT_TRUE(finer) << "main weights hold no more than the weights";
}

TEST_P(SixteenBitTraining, LossesFollowThoseOfFp32) {
  matrix::Cell wide = cell();
  wide.config.params_dtype = matrix::ParamsDtype::fp32;
  const LegRecord expected = run(wide, eager);
  const LegRecord actual = run(cell(), eager);
  for (std::int32_t step = 0; step < 4; ++step) {
    const double loss = numbers(actual, ObservedQuantity::loss, step, "loss", 0).at(0);
    EXPECT_NEAR(loss, numbers(expected, ObservedQuantity::loss, step, "loss", 0).at(0), 0.1)
        << step;
  }
}

/// A model and its optimizer in fp16, with a gradient that tests write.
class LossScale : public ::testing::Test {
 protected:
  LossScale() { cell_.config.params_dtype = matrix::ParamsDtype::fp16; }

  void build() {
    model_ = make_stage_model(cell_, 1, 0, fixture_.allocator, *fixture_.stream);
    optimizer_ =
        make_stage_optimizer(cell_, *model_, fixture_.allocator, *fixture_.stream, nullptr);
  }
  /// One step whose gradients are all zero but for one element.
  void step(float gradient) {
    for (const ParameterChunk& chunk : model_->parameter_chunks()) {
      fixture_.stream->fill(chunk.main_grads, 0, "zero");
    }
    const TensorView grad = model_->parameters().front().parameter.main_grad;
    fixture_.stream->upload({grad.data, DType::fp32, Shape{1}}, &gradient, false, "gradient");
    optimizer_->step(*fixture_.stream);
  }
  float scale() {
    float value = 0.0F;
    fixture_.stream->download(&value, optimizer_->loss_scale());
    return value;
  }
  std::uint16_t first_weight() {
    const TensorView weight = model_->parameters().front().parameter.weight;
    std::uint16_t bits = 0;
    fixture_.stream->download(&bits, {weight.data, DType::fp16, Shape{1}});
    return bits;
  }
  std::int64_t adam_steps() {
    for (const auto& [name, tensor] : optimizer_->state()) {
      if (name != "step") continue;
      std::int64_t value = 0;
      fixture_.stream->download(&value, tensor);
      return value;
    }
    return -1;
  }

  test::LayerFixture fixture_;
  matrix::Cell cell_ = test::small_cell();
  std::unique_ptr<StageModel> model_;
  std::unique_ptr<StageOptimizer> optimizer_;
};

TEST_F(LossScale, IsHalvedByAStepThatOverflowsAndLeavesTheWeights) {
  build();
  const float initial = scale();
  const std::uint16_t before = first_weight();
  step(std::numeric_limits<float>::infinity());
  EXPECT_EQ(scale(), initial / 2);
  EXPECT_EQ(first_weight(), before);
  EXPECT_EQ(adam_steps(), 0);
  step(std::numeric_limits<float>::quiet_NaN());
  EXPECT_EQ(scale(), initial / 4);
  step(1.0F);
  EXPECT_NE(first_weight(), before);
  EXPECT_EQ(adam_steps(), 1);
}

TEST_F(LossScale, GrowsAfterGoodStepsInARowOnly) {
  build();
  const float initial = scale();
  step(1.0F);
  step(std::numeric_limits<float>::infinity());
  step(1.0F);
  EXPECT_EQ(scale(), initial / 2);
  step(1.0F);
  EXPECT_EQ(scale(), initial);
}

TEST_F(LossScale, StaysWhereTheConfigurationFixesIt) {
  cell_.config.loss_scale = 8.0F;
  build();
  const std::uint16_t before = first_weight();
  step(std::numeric_limits<float>::infinity());
  step(0.0F);
  step(0.0F);
  EXPECT_EQ(scale(), 8.0F);
  EXPECT_EQ(first_weight(), before);
}

}  // namespace
}  // namespace cgconform::workloads

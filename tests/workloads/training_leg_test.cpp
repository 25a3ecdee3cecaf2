#include "tests/workloads/training_legs.hpp"

namespace cgconform::workloads {
namespace {

using testing::small_cell;

class TrainingLegs : public testing::OneRankLegs {};

TEST_F(TrainingLegs, EagerLegObservesEveryStepAndMicrobatch) {
  const matrix::Cell cell = small_cell();
  const LegRecord record = run(cell, eager);
  EXPECT_EQ(record.error, "");
  const std::size_t microbatches = 12;  // three in each of four steps
  // One loss a micro-batch, and the running loss a step.
  EXPECT_EQ(testing::count_of(record, ObservedQuantity::loss), microbatches + 4);
  EXPECT_EQ(testing::count_of(record, ObservedQuantity::layer_output), microbatches * 2);
  EXPECT_EQ(testing::count_of(record, ObservedQuantity::layer_grad_input), microbatches * 2);
  EXPECT_EQ(testing::count_of(record, ObservedQuantity::rng_state), 4U);
  EXPECT_TRUE(record.graphs.empty());
  EXPECT_EQ(record.executions.size(), microbatches * 2 * 2);
}

TEST_F(TrainingLegs, EagerLegEqualsItsRepeatBitForBit) {
  const matrix::Cell cell = small_cell();
  const LegRecord first = run(cell, eager);
  const LegRecord again = run(cell, {.repetition = 1});
  const auto bytes = testing::bytes_of(first, device());
  EXPECT_EQ(testing::differences(bytes, testing::bytes_of(again, device())),
            std::vector<std::string>{});
}

TEST_F(TrainingLegs, InstrumentsDoNotChangeTheTraining) {
  const matrix::Cell cell = small_cell();
  const auto plain = testing::bytes_of(run(cell, eager), device());
  const auto instrumented = testing::bytes_of(run(cell, instrumented_eager), device());
  for (const auto& [key, bytes] : plain) EXPECT_EQ(instrumented.at(key), bytes);
  EXPECT_GT(instrumented.size(), plain.size());
}

TEST_F(TrainingLegs, TrainingChangesTheWeights) {
  const LegRecord record = run(small_cell(), eager);
  std::map<std::string, std::vector<std::vector<std::byte>>> weights;
  for (const auto& [key, bytes] : testing::bytes_of(record, device())) {
    if (std::get<0>(key) == ObservedQuantity::weight) {
      weights[std::get<5>(key) + std::to_string(std::get<3>(key))].push_back(bytes);
    }
  }
  ASSERT_FALSE(weights.empty());
  for (const auto& [name, steps] : weights) {
    ASSERT_EQ(steps.size(), 4U);
    EXPECT_NE(steps.front(), steps.back()) << name;
  }
}

TEST_F(TrainingLegs, ValidationLeavesTheTrainingAsItIs) {
  matrix::Cell cell = small_cell();
  const auto without = testing::bytes_of(run(cell, eager), device());
  cell.shape.eval_interval = 2;
  cell.shape.eval_iters = 2;
  const LegRecord with = run(cell, eager);
  EXPECT_EQ(with.error, "");
  const auto bytes = testing::bytes_of(with, device());
  for (const auto& [key, expected] : without) EXPECT_EQ(bytes.at(key), expected);
  EXPECT_GT(bytes.size(), without.size());
}

TEST_F(TrainingLegs, WhatIsNotBuiltIsAnErrorInTheRecord) {
  matrix::Cell cell = small_cell();
  cell.config.overlap_moe_expert_parallel_comm = true;
  const LegRecord record = run(cell, eager);
  EXPECT_NE(record.error.find("expert-parallel overlap"), std::string::npos) << record.error;
  EXPECT_EQ(record.error_phase, Phase::setup);
}

}  // namespace
}  // namespace cgconform::workloads

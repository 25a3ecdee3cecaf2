#include <algorithm>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "workloads/training/data_loader.hpp"

namespace cgconform::workloads {
namespace {

constexpr BatchShape shape{.sequences = 2, .length = 8, .vocabulary = 32};

TEST(DataLoader, GivesTheSameBatchForTheSamePlace) {
  const DataLoader loader(shape, 7);
  const HostBatch first = loader.batch(BatchUse::training, 3, 1);
  const HostBatch again = DataLoader(shape, 7).batch(BatchUse::training, 3, 1);
  EXPECT_EQ(first.tokens, again.tokens);
  EXPECT_EQ(first.labels, again.labels);
  EXPECT_EQ(first.loss_mask, again.loss_mask);
}

TEST(DataLoader, GivesAnotherBatchForEveryStepMicrobatchUseAndSeed) {
  std::set<std::vector<std::int32_t>> seen;
  std::size_t batches = 0;
  for (const std::uint64_t seed : {7U, 8U}) {
    const DataLoader loader(shape, seed);
    for (const BatchUse use : {BatchUse::training, BatchUse::validation}) {
      for (std::int32_t step = 0; step < 6; ++step) {
        for (std::int32_t microbatch = 0; microbatch < 3; ++microbatch) {
          seen.insert(loader.batch(use, step, microbatch).tokens);
          ++batches;
        }
      }
    }
  }
  EXPECT_EQ(seen.size(), batches);
}

TEST(DataLoader, MovesTheEdgeOfThePaddingBothWays) {
  const DataLoader loader(shape, 7);
  std::set<int> directions;
  for (std::int32_t step = 1; step < 5; ++step) {
    const std::int64_t before = loader.batch(BatchUse::training, step - 1, 0).valid_length;
    const std::int64_t now = loader.batch(BatchUse::training, step, 0).valid_length;
    directions.insert(now > before ? 1 : (now < before ? -1 : 0));
  }
  EXPECT_TRUE(directions.contains(1));
  EXPECT_TRUE(directions.contains(-1));
}

TEST(DataLoader, PaddingDoesNotCountInTheLoss) {
  const DataLoader loader(shape, 7);
  const HostBatch batch = loader.batch(BatchUse::training, 1, 0);
  ASSERT_LT(batch.valid_length, shape.length);
  for (std::int64_t sequence = 0; sequence < shape.sequences; ++sequence) {
    for (std::int64_t position = 0; position < shape.length; ++position) {
      const auto row = static_cast<std::size_t>(sequence * shape.length + position);
      EXPECT_GE(batch.tokens[row], 0);
      EXPECT_LT(batch.tokens[row], shape.vocabulary);
      if (position < batch.valid_length) continue;
      EXPECT_EQ(batch.loss_mask[row], 0.0);
      EXPECT_EQ(batch.tokens[row], 0);
    }
  }
  EXPECT_GT(std::count(batch.loss_mask.begin(), batch.loss_mask.end(), 1.0), 0);
}

TEST(DataLoader, PacksSequencesWhoseBordersChangeAndRiseToTheLength) {
  BatchShape packed = shape;
  packed.packed = true;
  const DataLoader loader(packed, 7);
  std::set<std::vector<std::int32_t>> seen;
  for (std::int32_t step = 0; step < 8; ++step) {
    const HostBatch batch = loader.batch(BatchUse::training, step, 0);
    ASSERT_EQ(batch.cu_seqlens.size(), static_cast<std::size_t>(2 * packed_borders));
    for (std::int64_t sequence = 0; sequence < 2; ++sequence) {
      const auto first = batch.cu_seqlens.begin() + sequence * packed_borders;
      const auto end = first + packed_borders;
      EXPECT_EQ(*first, 0);
      EXPECT_EQ(*(end - 1), shape.length);
      EXPECT_TRUE(std::is_sorted(first, end));
      EXPECT_NE(std::find(first, end, batch.valid_length), end) << "padding is apart";
      for (auto border = first + 1; border != end; ++border) {
        if (*border > batch.valid_length) continue;
        const auto last = static_cast<std::size_t>(sequence * shape.length + *border - 1);
        EXPECT_EQ(batch.loss_mask[last], 0.0) << "the last token of a sequence has no next one";
      }
    }
    EXPECT_GT(std::count(batch.loss_mask.begin(), batch.loss_mask.end(), 1.0), 0);
    EXPECT_EQ(batch.tokens, DataLoader(shape, 7).batch(BatchUse::training, step, 0).tokens);
    seen.insert(batch.cu_seqlens);
  }
  EXPECT_GT(seen.size(), 3U);
}

TEST(DataLoader, BeginsSequencesWithAnImageThatChanges) {
  BatchShape with_images = shape;
  with_images.image_tokens = 3;
  const DataLoader loader(with_images, 7);
  const HostBatch batch = loader.batch(BatchUse::training, 1, 0);
  EXPECT_EQ(batch.images.size(), std::size_t{2} * 3 * patch_size);
  EXPECT_NE(batch.images, loader.batch(BatchUse::training, 2, 0).images);
  for (std::size_t sequence = 0; sequence < 2; ++sequence) {
    for (std::size_t position = 0; position < 3; ++position) {
      const std::size_t row = sequence * 8 + position;
      EXPECT_EQ(batch.tokens[row], 0);
      EXPECT_EQ(batch.loss_mask[row], 0.0);
    }
    EXPECT_EQ(batch.loss_mask[sequence * 8 + 3], 1.0);
  }
  EXPECT_TRUE(DataLoader(shape, 7).batch(BatchUse::training, 1, 0).images.empty());
}

}  // namespace
}  // namespace cgconform::workloads

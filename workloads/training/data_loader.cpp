#include "workloads/training/data_loader.hpp"

#include <algorithm>
#include <cstddef>

namespace cgconform::workloads {
namespace {

/// SplitMix64, a counter-based generator: small, fast and the same on every platform.
class RandomNumbers {
 public:
  explicit RandomNumbers(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    state_ += 0x9E3779B97F4A7C15ULL;
    std::uint64_t value = state_;
    value = (value ^ (value >> 30U)) * 0xBF58476D1CE4E5B9ULL;
    value = (value ^ (value >> 27U)) * 0x94D049BB133111EBULL;
    return value ^ (value >> 31U);
  }

  std::int64_t below(std::int64_t bound) {
    return static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(bound));
  }

 private:
  std::uint64_t state_;
};

std::uint64_t combine(std::uint64_t seed, std::uint64_t value) {
  return RandomNumbers(seed ^ (value * 0xD6E8FEB86659FD93ULL)).next();
}

/// Real tokens a sequence: falls and rises from step to step, so that a row that was real becomes
/// padding in the next step and the reverse.
std::int64_t valid_length(std::int64_t length, std::int32_t step, std::int32_t microbatch) {
  const std::int64_t most_padding = std::max<std::int64_t>(length / 4, length > 1 ? 1 : 0);
  const bool padded = (step + microbatch) % 2 == 1;
  const std::int64_t padding = padded ? most_padding : most_padding / 2;
  return length - padding;
}

}  // namespace

HostBatch DataLoader::batch(BatchUse use, std::int32_t step, std::int32_t microbatch) const {
  return draw(use, step, microbatch * part_.replicas + part_.replica);
}

HostBatch DataLoader::draw(BatchUse use, std::int32_t step, std::int32_t microbatch) const {
  std::uint64_t seed = combine(seed_, static_cast<std::uint64_t>(use) + 1);
  seed = combine(seed, static_cast<std::uint64_t>(step) + 1);
  RandomNumbers random(combine(seed, static_cast<std::uint64_t>(microbatch) + 1));

  const auto rows = static_cast<std::size_t>(shape_.tokens());
  HostBatch batch;
  batch.tokens.assign(rows, 0);
  batch.labels.assign(rows, 0);
  batch.loss_mask.assign(rows, 0.0);
  batch.valid_length = valid_length(shape_.length, step, microbatch);
  for (std::int64_t sequence = 0; sequence < shape_.sequences; ++sequence) {
    const auto first = static_cast<std::size_t>(sequence * shape_.length);
    // The step leads the sequence, so that no two steps can draw the same batch by chance.
    auto token =
        static_cast<std::int32_t>((step * 7 + microbatch * 3 + sequence) % shape_.vocabulary);
    for (std::int64_t position = 0; position < batch.valid_length; ++position) {
      const auto row = first + static_cast<std::size_t>(position);
      const auto next = static_cast<std::int32_t>(random.below(shape_.vocabulary));
      batch.tokens[row] = token;
      batch.labels[row] = next;
      // One real row in eight does not count, as in packed or prompt-masked data.
      batch.loss_mask[row] = position > 0 && random.below(8) == 0 ? 0.0 : 1.0;
      token = next;
    }
  }
  return batch;
}

}  // namespace cgconform::workloads

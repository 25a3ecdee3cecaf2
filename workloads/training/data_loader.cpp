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
  const bool partial = use == BatchUse::training && shape_.is_partial(step, microbatch);
  return draw(use, step, microbatch * part_.replicas + part_.replica,
              partial ? (shape_.sequences + 1) / 2 : shape_.sequences);
}

HostBatch DataLoader::draw(BatchUse use, std::int32_t step, std::int32_t microbatch,
                           std::int64_t sequences) const {
  std::uint64_t seed = combine(seed_, static_cast<std::uint64_t>(use) + 1);
  seed = combine(seed, static_cast<std::uint64_t>(step) + 1);
  seed = combine(seed, static_cast<std::uint64_t>(microbatch) + 1);
  RandomNumbers random(seed);

  const auto rows = static_cast<std::size_t>(shape_.tokens());
  HostBatch batch;
  batch.tokens.assign(rows, 0);
  batch.labels.assign(rows, 0);
  batch.loss_mask.assign(rows, 0.0);
  batch.valid_length = valid_length(shape_.length, step, microbatch);
  batch.sequences = sequences;
  for (std::int64_t sequence = 0; sequence < sequences; ++sequence) {
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
  if (shape_.packed) pack(batch, seed);
  if (shape_.image_tokens > 0) show_images(batch, seed);
  return batch;
}

void DataLoader::pack(HostBatch& batch, std::uint64_t seed) const {
  constexpr std::uint64_t border_salt = 0x5E9A;
  RandomNumbers random(combine(seed, border_salt));
  constexpr std::int64_t most_packed = packed_borders - 2;
  for (std::int64_t sequence = 0; sequence < shape_.sequences; ++sequence) {
    const std::int64_t wanted = 2 + random.below(most_packed - 1);
    const std::int64_t packed = std::clamp<std::int64_t>(batch.valid_length / 3, 1, wanted);
    batch.cu_seqlens.push_back(0);
    for (std::int64_t i = 1; i <= packed; ++i) {
      // Never so early that the first token would be the last of its sequence.
      const std::int64_t shift = i < packed ? random.below(3) - 1 : 0;
      const std::int64_t border = batch.valid_length * i / packed + shift;
      batch.cu_seqlens.push_back(static_cast<std::int32_t>(border));
      batch.loss_mask[static_cast<std::size_t>(sequence * shape_.length + border - 1)] = 0.0;
    }
    batch.cu_seqlens.resize(static_cast<std::size_t>((sequence + 1) * packed_borders),
                            static_cast<std::int32_t>(shape_.length));
  }
}

void DataLoader::show_images(HostBatch& batch, std::uint64_t seed) const {
  constexpr std::uint64_t image_salt = 0x1A6E;
  RandomNumbers random(combine(seed, image_salt));
  const std::int64_t images = shape_.sequences * shape_.image_tokens;
  batch.images.resize(static_cast<std::size_t>(images * patch_size));
  for (double& value : batch.images) {
    value = static_cast<double>(random.below(257)) / 128.0 - 1.0;
  }
  for (std::int64_t row = 0; row < shape_.tokens(); ++row) {
    const auto index = static_cast<std::size_t>(row);
    const std::int64_t position = row % shape_.length;
    if (position < shape_.image_tokens) {
      batch.tokens[index] = 0;
      batch.labels[index] = 0;
      batch.loss_mask[index] = 0.0;
    } else if (position == shape_.image_tokens && row / shape_.length < batch.sequences) {
      batch.loss_mask[index] = 1.0;
    }
  }
}

}  // namespace cgconform::workloads

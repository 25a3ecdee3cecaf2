#pragma once

#include <cstdint>
#include <vector>

namespace cgconform::workloads {

/// Entries of a row of cu_seqlens: the start of the first of up to four packed sequences, those of
/// the others, that of the padding, and the length, which also fills what is not needed.
constexpr std::int64_t packed_borders = 6;

/// Numbers that make one patch of an image.
constexpr std::int64_t patch_size = 12;

/// Sizes of one micro-batch: `sequences` rows of `length` tokens out of `vocabulary`.
struct BatchShape {
  std::int64_t sequences = 1;
  std::int64_t length = 1;
  std::int64_t vocabulary = 2;
  bool packed = false;            ///< each row holds several sequences
  std::int64_t image_tokens = 0;  ///< rows at the start of each sequence that come from an image
  std::int32_t microbatches = 1;  ///< of a training step
  bool runs_out = false;          ///< the data ends in every third step, and begins anew

  std::int64_t tokens() const { return sequences * length; }
  /// True for the last micro-batch of a training step in which the data ends: half of its
  /// sequences are there.
  bool is_partial(std::int32_t step, std::int32_t microbatch) const {
    return runs_out && step % 3 == 2 && microbatch + 1 == microbatches;
  }
};

/// One micro-batch on the host. Each sequence holds `valid_length` real tokens and then padding,
/// whose token and label are 0 and whose loss mask is 0.
struct HostBatch {
  std::vector<std::int32_t> tokens;  ///< [sequences * length]
  std::vector<std::int32_t> labels;  ///< the next token of each row
  std::vector<double> loss_mask;     ///< 1 where a row counts in the loss
  std::int64_t valid_length = 0;
  std::int64_t sequences = 0;  ///< that are there; the rows of those missing are padding
  /// [sequences * packed_borders] where rows are packed, else empty. Padding is a sequence of its
  /// own, and the last token of a sequence does not count: it has no next one.
  std::vector<std::int32_t> cu_seqlens;
  /// [sequences * image_tokens, patch_size] where sequences begin with an image, else empty. Their
  /// rows have token and label 0 and do not count.
  std::vector<double> images;
};

enum class BatchUse : std::uint8_t { training, validation };

/// Which part of the whole batch a rank reads: micro-batch m of replica r is m * replicas + r of
/// it.
struct BatchPart {
  std::int32_t replicas = 1;
  std::int32_t replica = 0;
};

/// Deterministic data: the batch is a function of seed, use, step, micro-batch and replica alone,
/// so every leg and every pipeline stage sees the same. Tokens, mask, the length of the padding
/// and the borders of packed sequences differ from step to step and from micro-batch to
/// micro-batch.
class DataLoader {
 public:
  DataLoader(const BatchShape& shape, std::uint64_t seed, const BatchPart& part = {})
      : shape_(shape), seed_(seed), part_(part) {}

  const BatchShape& shape() const { return shape_; }
  HostBatch batch(BatchUse use, std::int32_t step, std::int32_t microbatch) const;

 private:
  void pack(HostBatch& batch, std::uint64_t seed) const;
  void show_images(HostBatch& batch, std::uint64_t seed) const;
  /// `microbatch` counts over all replicas.
  HostBatch draw(BatchUse use, std::int32_t step, std::int32_t microbatch,
                 std::int64_t sequences) const;

  BatchShape shape_;
  std::uint64_t seed_;
  BatchPart part_;
};

}  // namespace cgconform::workloads

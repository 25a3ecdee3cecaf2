#pragma once

#include <cstdint>
#include <vector>

namespace cgconform::workloads {

/// Sizes of one micro-batch: `sequences` rows of `length` tokens out of `vocabulary`.
struct BatchShape {
  std::int64_t sequences = 1;
  std::int64_t length = 1;
  std::int64_t vocabulary = 2;

  std::int64_t tokens() const { return sequences * length; }
};

/// One micro-batch on the host. Each sequence holds `valid_length` real tokens and then padding,
/// whose token and label are 0 and whose loss mask is 0.
struct HostBatch {
  std::vector<std::int32_t> tokens;  ///< [sequences * length]
  std::vector<std::int32_t> labels;  ///< the next token of each row
  std::vector<double> loss_mask;     ///< 1 where a row counts in the loss
  std::int64_t valid_length = 0;
};

enum class BatchUse : std::uint8_t { training, validation };

/// Which part of the whole batch a rank reads: micro-batch m of replica r is m * replicas + r of
/// it.
struct BatchPart {
  std::int32_t replicas = 1;
  std::int32_t replica = 0;
};

/// Deterministic data: the batch is a function of seed, use, step, micro-batch and replica alone,
/// so every leg and every pipeline stage sees the same. Tokens, mask and the length of the padding
/// differ from step to step and from micro-batch to micro-batch.
class DataLoader {
 public:
  DataLoader(const BatchShape& shape, std::uint64_t seed, const BatchPart& part = {})
      : shape_(shape), seed_(seed), part_(part) {}

  const BatchShape& shape() const { return shape_; }
  HostBatch batch(BatchUse use, std::int32_t step, std::int32_t microbatch) const;

 private:
  HostBatch draw(BatchUse use, std::int32_t step, std::int32_t microbatch) const;

  BatchShape shape_;
  std::uint64_t seed_;
  BatchPart part_;
};

}  // namespace cgconform::workloads

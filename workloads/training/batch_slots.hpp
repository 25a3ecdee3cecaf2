#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "workloads/capture/capture_implementation.hpp"
#include "workloads/ops/verification.hpp"
#include "workloads/training/data_loader.hpp"
#include "workloads/training/leg_context.hpp"

namespace cgconform::workloads {

/// One micro-batch on the device.
struct DeviceBatch {
  TensorView tokens;      ///< int32 [tokens]
  TensorView labels;      ///< int32 [tokens]
  TensorView loss_mask;   ///< of the model's arithmetic type [tokens]
  TensorView cu_seqlens;  ///< int32 [sequences, packed_borders]; invalid where nothing is packed
  TensorView images;      ///< of the model's arithmetic type; invalid where there are none
  std::int64_t valid_length = 0;
  std::int64_t counted_tokens = 0;  ///< rows whose mask is 1
};

/// Brings batches to the device on a loader stream, outside every graph. Where an implementation
/// needs it, batches lie in static slots, one set a mode and micro-batch, refreshed for each call.
class BatchSlots {
 public:
  BatchSlots(LegContext& context, const DataLoader& loader);

  /// Loads the micro-batches of a call; later work of the main stream sees them.
  void load(const IterationCall& call, std::int32_t microbatches,
            const CaptureImplementation& implementation);
  const DeviceBatch& batch(IterationMode mode, std::int32_t microbatch) const;
  /// At the start of an iteration's body: hashes the slots where they are used, in the graph if
  /// there is one.
  void enter_body(const IterationCall& call, const BodyMode& mode);
  /// Overwrites the static slots, so that a slot that is not refreshed cannot go unseen. Tokens
  /// become 0, which stays a valid index; the mask becomes NaN.
  void poison();
  /// Gives everything back. Nothing may be in flight.
  void clear();
  /// Gives unused segments back. Nothing may be in flight.
  void trim();

 private:
  using Key = std::pair<IterationMode, std::int32_t>;  ///< mode, micro-batch
  struct Tensors {
    Buffer tokens;
    Buffer labels;
    Buffer loss_mask;
    Buffer cu_seqlens;
    Buffer images;
  };
  /// Which of a batch's tensors.
  enum class Part : std::uint8_t { tokens, labels, loss_mask, cu_seqlens, images };

  Tensors allocate(PoolId pool, const char* label);
  static Buffer& part(Tensors& tensors, Part which);
  static const char* part_name(Part which);
  TensorLocation location(const IterationCall& call, std::int32_t microbatch, Part which) const;
  /// Host bytes of the batch's part; kept until the leg ends, so that uploads may be asynchronous.
  const std::vector<std::byte>& stage(const HostBatch& batch, Part which);
  /// What the iteration reads; of a partial micro-batch the rows of the sequences that are there.
  DeviceBatch device_batch(const Tensors& tensors, const HostBatch& host, bool partial) const;
  /// Adds the copies that bring the part into its static slot.
  void refresh(const IterationCall& call, std::int32_t microbatch, Part which,
               const HostBatch& batch, std::uint64_t replays, std::vector<CopyPair>& copies);
  void copy_valid_rows(const TensorView& slot, const TensorView& source, const HostBatch& batch,
                       std::vector<CopyPair>& copies) const;
  void overwrite_staging(const IterationCall& call, std::int32_t microbatch);

  LegContext& context_;
  const DataLoader& loader_;
  std::vector<Part> parts_;  ///< those that a batch has
  DType mask_type_;
  PoolId source_pool_;  ///< of batches as loaded
  std::map<Key, Tensors> sources_;
  std::map<Key, Tensors> slots_;
  std::map<Key, DeviceBatch> batches_;
  std::map<std::int32_t, std::vector<std::byte>> captured_staging_;  ///< F01d, by micro-batch
  std::deque<std::vector<std::byte>> staging_;
};

}  // namespace cgconform::workloads

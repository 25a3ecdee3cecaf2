#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace cgconform::workloads {

/// Where a rank stands in the pipeline and how much one training step gives it to do.
struct PipelineLayout {
  std::int32_t stages = 1;
  std::int32_t stage = 0;
  std::int32_t microbatches = 1;
  std::int32_t chunks = 1;  ///< of the model a stage; several are interleaved
  std::optional<std::int32_t> microbatch_group = std::nullopt;  ///< absent means stages
  std::int32_t extra_warmup = 0;  ///< forwards run ahead beyond what the schedule needs
};

/// The exchange with a neighbouring stage that belongs to an action. The combined forms send and
/// receive at one point of the schedule, so that neighbours which both have something to send do
/// not wait for each other.
enum class PipelineTransfer : std::uint8_t {
  none,
  receive_input,             ///< of a forward, from the previous stage
  send_output,               ///< of a forward, to the next stage
  send_output_receive_grad,  ///< after a forward of the steady state
  receive_grad,              ///< before a backward, from the next stage
  send_grad,                 ///< after a backward, to the previous stage
  send_grad_receive_input,   ///< after a backward of the steady state
};

enum class PipelineWork : std::uint8_t { forward, backward, transfer };

/// One step of a rank's schedule. `microbatch` is that of the work or of what is sent;
/// `received_microbatch` that of what a combined transfer receives. `chunk` is the model chunk.
struct PipelineAction {
  PipelineWork work = PipelineWork::forward;
  PipelineTransfer transfer = PipelineTransfer::none;
  std::int32_t microbatch = 0;
  std::int32_t received_microbatch = -1;
  std::int32_t chunk = 0;
  friend bool operator==(const PipelineAction&, const PipelineAction&) = default;
};

/// Forwards a stage of one chunk runs before its first backward: stages - stage - 1, at most all
/// micro-batches.
std::int32_t warmup_forwards(const PipelineLayout& layout);

/// The one-forward-one-backward schedule of a stage with one chunk. Throws InternalError where the
/// layout makes no sense.
std::vector<PipelineAction> one_forward_one_backward(const PipelineLayout& layout);

/// The schedule of a training step: one forward, one backward; interleaved where a stage has
/// several chunks. There the last stage sends on to the first, and gradients travel apart from
/// activations, in a group of ranks of their own: with two stages both would go the same way.
std::vector<PipelineAction> training_schedule(const PipelineLayout& layout);

/// Forwards only, as validation runs them.
std::vector<PipelineAction> forward_only(const PipelineLayout& layout);

}  // namespace cgconform::workloads

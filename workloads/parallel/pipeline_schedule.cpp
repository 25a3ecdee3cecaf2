#include "workloads/parallel/pipeline_schedule.hpp"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include <fmt/format.h>

#include "matrix/error.hpp"
#include "workloads/parallel/capture_order.hpp"

namespace cgconform::workloads {
namespace {

void require_valid(const PipelineLayout& layout) {
  const bool valid = layout.stages >= 1 && layout.stage >= 0 && layout.stage < layout.stages &&
                     layout.microbatches >= 1 && layout.chunks >= 1 &&
                     (layout.chunks == 1 || layout.stages > 1);
  if (!valid) {
    throw InternalError(fmt::format("pipeline schedule: stage {} of {} with {} micro-batches",
                                    layout.stage, layout.stages, layout.microbatches));
  }
}

/// Appends actions, leaving out the transfers that the ends of the model do not have.
class ScheduleWriter {
 public:
  explicit ScheduleWriter(const PipelineLayout& layout) : layout_(layout) {}

  void work(PipelineWork work, std::int32_t microbatch, std::int32_t chunk = 0) {
    actions_.push_back({.work = work, .microbatch = microbatch, .chunk = chunk});
  }

  void transfer(PipelineTransfer transfer, std::int32_t microbatch, std::int32_t received = -1,
                std::int32_t chunk = 0) {
    const bool with_previous = transfer == PipelineTransfer::receive_input ||
                               transfer == PipelineTransfer::send_grad ||
                               transfer == PipelineTransfer::send_grad_receive_input;
    if (with_previous ? begins_model(chunk) : ends_model(chunk)) return;
    actions_.push_back({.work = PipelineWork::transfer,
                        .transfer = transfer,
                        .microbatch = microbatch,
                        .received_microbatch = received,
                        .chunk = chunk});
  }

  /// A forward with what it receives and sends.
  void forward(const ScheduleEntry& entry) {
    transfer(PipelineTransfer::receive_input, entry.microbatch, -1, entry.chunk);
    work(PipelineWork::forward, entry.microbatch, entry.chunk);
    transfer(PipelineTransfer::send_output, entry.microbatch, -1, entry.chunk);
  }
  void backward(const ScheduleEntry& entry) {
    transfer(PipelineTransfer::receive_grad, entry.microbatch, -1, entry.chunk);
    work(PipelineWork::backward, entry.microbatch, entry.chunk);
    transfer(PipelineTransfer::send_grad, entry.microbatch, -1, entry.chunk);
  }

  std::vector<PipelineAction> take() { return std::move(actions_); }

 private:
  bool begins_model(std::int32_t chunk) const { return layout_.stage == 0 && chunk == 0; }
  bool ends_model(std::int32_t chunk) const {
    return layout_.stage == layout_.stages - 1 && chunk == layout_.chunks - 1;
  }

  const PipelineLayout& layout_;
  std::vector<PipelineAction> actions_;
};

/// One forward, one backward over micro-batches and chunks; the order in which graphs are captured.
std::vector<PipelineAction> interleaved(const PipelineLayout& layout) {
  const CaptureOrder order = capture_order({.pipeline_stages = layout.stages,
                                            .rank = layout.stage,
                                            .chunks = layout.chunks,
                                            .microbatches = layout.microbatches,
                                            .microbatch_group = layout.microbatch_group,
                                            .extra_warmup = layout.extra_warmup});
  ScheduleWriter schedule(layout);
  std::size_t forwards = 0;
  std::size_t backwards = 0;
  for (const std::int32_t entry : order.order) {
    if (entry > 0) {
      schedule.forward(order.table[forwards++]);
    } else {
      const std::int32_t chunk = std::abs(entry) - 1;
      schedule.backward({order.table[backwards++].microbatch, chunk});
    }
  }
  return schedule.take();
}

}  // namespace

std::int32_t warmup_forwards(const PipelineLayout& layout) {
  require_valid(layout);
  return std::min(layout.stages - layout.stage - 1, layout.microbatches);
}

std::vector<PipelineAction> one_forward_one_backward(const PipelineLayout& layout) {
  const std::int32_t warmup = warmup_forwards(layout);
  const std::int32_t steady = layout.microbatches - warmup;
  ScheduleWriter schedule(layout);

  for (std::int32_t microbatch = 0; microbatch < warmup; ++microbatch) {
    schedule.transfer(PipelineTransfer::receive_input, microbatch);
    schedule.work(PipelineWork::forward, microbatch);
    schedule.transfer(PipelineTransfer::send_output, microbatch);
  }
  if (steady > 0) schedule.transfer(PipelineTransfer::receive_input, warmup);
  for (std::int32_t i = 0; i < steady; ++i) {
    schedule.work(PipelineWork::forward, warmup + i);
    schedule.transfer(PipelineTransfer::send_output_receive_grad, warmup + i, i);
    schedule.work(PipelineWork::backward, i);
    if (i + 1 < steady) {
      schedule.transfer(PipelineTransfer::send_grad_receive_input, i, warmup + i + 1);
    } else {
      schedule.transfer(PipelineTransfer::send_grad, i);
    }
  }
  for (std::int32_t microbatch = steady; microbatch < layout.microbatches; ++microbatch) {
    schedule.transfer(PipelineTransfer::receive_grad, microbatch);
    schedule.work(PipelineWork::backward, microbatch);
    schedule.transfer(PipelineTransfer::send_grad, microbatch);
  }
  return schedule.take();
}

std::vector<PipelineAction> training_schedule(const PipelineLayout& layout) {
  require_valid(layout);
  const bool plain = layout.chunks == 1 && layout.extra_warmup == 0;
  return plain ? one_forward_one_backward(layout) : interleaved(layout);
}

std::vector<PipelineAction> forward_only(const PipelineLayout& layout) {
  require_valid(layout);
  ScheduleWriter schedule(layout);
  const std::int32_t group = layout.microbatch_group.value_or(layout.stages);
  for (const ScheduleEntry& entry : schedule_table(layout.microbatches, layout.chunks, group)) {
    schedule.forward(entry);
  }
  return schedule.take();
}

}  // namespace cgconform::workloads

#include "workloads/parallel/pipeline_schedule.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "matrix/error.hpp"

namespace cgconform::workloads {
namespace {

void require_valid(const PipelineLayout& layout) {
  const bool valid = layout.stages >= 1 && layout.stage >= 0 && layout.stage < layout.stages &&
                     layout.microbatches >= 1;
  if (!valid) {
    throw InternalError(fmt::format("pipeline schedule: stage {} of {} with {} micro-batches",
                                    layout.stage, layout.stages, layout.microbatches));
  }
}

/// Appends actions, leaving out the transfers that the ends of the pipeline do not have.
class ScheduleWriter {
 public:
  explicit ScheduleWriter(const PipelineLayout& layout)
      : first_(layout.stage == 0), last_(layout.stage == layout.stages - 1) {}

  void work(PipelineWork work, std::int32_t microbatch) {
    actions_.push_back({.work = work, .microbatch = microbatch});
  }

  void transfer(PipelineTransfer transfer, std::int32_t microbatch, std::int32_t received = -1) {
    const bool with_previous = transfer == PipelineTransfer::receive_input ||
                               transfer == PipelineTransfer::send_grad ||
                               transfer == PipelineTransfer::send_grad_receive_input;
    if (with_previous ? first_ : last_) return;
    actions_.push_back({.work = PipelineWork::transfer,
                        .transfer = transfer,
                        .microbatch = microbatch,
                        .received_microbatch = received});
  }

  std::vector<PipelineAction> take() { return std::move(actions_); }

 private:
  bool first_;
  bool last_;
  std::vector<PipelineAction> actions_;
};

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

std::vector<PipelineAction> forward_only(const PipelineLayout& layout) {
  require_valid(layout);
  ScheduleWriter schedule(layout);
  for (std::int32_t microbatch = 0; microbatch < layout.microbatches; ++microbatch) {
    schedule.transfer(PipelineTransfer::receive_input, microbatch);
    schedule.work(PipelineWork::forward, microbatch);
    schedule.transfer(PipelineTransfer::send_output, microbatch);
  }
  return schedule.take();
}

}  // namespace cgconform::workloads

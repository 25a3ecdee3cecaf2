#include "workloads/training/gradient_reduction.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "matrix/error.hpp"

namespace cgconform::workloads {
namespace {

/// The chunk whose backward gives the parameter's gradient.
std::size_t chunk_of(const StageModel& model, const StageParameter& entry) {
  const std::span<const ModelChunk> chunks = model.chunks();
  if (entry.part == ModelPart::embedding) return 0;
  if (entry.part == ModelPart::head) return chunks.size() - 1;
  const auto holds = [&](const ModelChunk& chunk) {
    return entry.layer >= chunk.first_layer &&
           entry.layer < chunk.first_layer + chunk.layer_count();
  };
  return static_cast<std::size_t>(std::find_if(chunks.begin(), chunks.end(), holds) -
                                  chunks.begin());
}

}  // namespace

GradientReduction::GradientReduction(LegContext& context, const StageModel& model,
                                     const ReplicaGroups& groups)
    : context_(context), overlaps_(context.cell.config.overlap_grad_reduce) {
  fill_buckets(model, groups.replicas, false,
               [](const Parameter& parameter) { return !parameter.of_experts; });
  if (groups.replicas != nullptr) {
    fill_buckets(model, groups.expert_replicas, false,
                 [](const Parameter& parameter) { return parameter.of_experts; });
  }
  fill_buckets(model, groups.tensor, true,
               [](const Parameter& parameter) { return parameter.partial_gradient; });
  if (buckets_.empty()) return;
  stream_ = context.device().create_stream("gradient reduction");
  for (Bucket& bucket : buckets_) {
    bucket.flat =
        Buffer(context_.allocator(), context_.stream(), default_pool,
               arithmetic_type(context_.model_type()), Shape{bucket.elements}, "gradient bucket");
  }
}

void GradientReduction::fill_buckets(const StageModel& model, Communicator* ranks, bool at_end,
                                     bool (*belongs)(const Parameter& parameter)) {
  if (ranks == nullptr) return;
  for (std::size_t chunk = 0; chunk < model.chunks().size(); ++chunk) {
    bool open = false;
    const std::span<const StageParameter> all = model.parameters();
    for (auto entry = all.rbegin(); entry != all.rend(); ++entry) {
      if (chunk_of(model, *entry) != chunk || !belongs(entry->parameter)) continue;
      if (!open) buckets_.emplace_back();
      Bucket& bucket = buckets_.back();
      bucket.ranks = ranks;
      bucket.at_end = at_end;
      bucket.parameters.push_back(*entry);
      bucket.elements += entry->parameter.main_grad.elements();
      open = bucket.elements < context_.cell.shape.bucket_size;
    }
  }
}

void GradientReduction::begin(std::int32_t step) {
  step_ = step;
  for (Bucket& bucket : buckets_) {
    bucket.waiting = bucket.parameters.size();
    bucket.launched = false;
  }
}

void GradientReduction::ready(ModelPart part, std::int32_t layer) {
  for (std::size_t index = 0; index < buckets_.size(); ++index) {
    Bucket& bucket = buckets_[index];
    const auto count = std::count_if(
        bucket.parameters.begin(), bucket.parameters.end(), [&](const StageParameter& entry) {
          return entry.part == part && (part != ModelPart::layer || entry.layer == layer);
        });
    bucket.waiting -= static_cast<std::size_t>(count);
    if (count > 0 && bucket.waiting == 0 && overlaps_ && !bucket.at_end) launch(index);
  }
}

void GradientReduction::launch(std::size_t index) {
  Bucket& bucket = buckets_[index];
  bucket.launched = true;
  ReductionRecord record{.step = step_,
                         .bucket = static_cast<std::int32_t>(index),
                         .executions_before = context_.record.executions.size()};
  const std::unique_ptr<Event> complete = context_.device().create_event();
  context_.stream().record(*complete);
  stream_->wait(*complete);
  const std::string label = fmt::format("step {} bucket {}", step_, index);
  const auto for_each_part = [&](const auto& visit) {
    TensorView part = bucket.flat.view();
    for (const StageParameter& entry : bucket.parameters) {
      const TensorView& gradient = entry.parameter.main_grad;
      part.shape = gradient.shape;
      visit(part, gradient);
      part.data = static_cast<std::byte*>(part.data) + gradient.bytes();
    }
  };
  for_each_part([&](const TensorView& part, const TensorView& gradient) {
    stream_->copy(part, gradient, label + " gather");
  });
  const TensorView& flat = bucket.flat.view();
  bucket.ranks->all_reduce(flat, flat, ReduceOp::sum, *stream_, label);
  for_each_part([&](const TensorView& part, const TensorView& gradient) {
    stream_->copy(gradient, part, label + " scatter");
  });
  for (const StageParameter& entry : bucket.parameters) {
    record.parameters.push_back(entry.name);
    record.layers.push_back(entry.layer);
  }
  context_.record.reductions.push_back(std::move(record));
}

void GradientReduction::finish() {
  if (buckets_.empty()) return;
  for (std::size_t index = 0; index < buckets_.size(); ++index) {
    if (buckets_[index].waiting != 0) {
      throw InternalError(fmt::format("gradient bucket {}: {} gradients never became ready", index,
                                      buckets_[index].waiting));
    }
    if (!buckets_[index].launched) launch(index);
  }
  const std::unique_ptr<Event> reduced = context_.device().create_event();
  stream_->record(*reduced);
  context_.stream().wait(*reduced);
  // What the optimizer will use is what the reduction has left.
  const std::int32_t last = context_.cell.config.num_microbatches - 1;
  for (const Bucket& bucket : buckets_) {
    for (const StageParameter& entry : bucket.parameters) {
      context_.recorder.hash(SlotKind::weight_grad, SlotMoment::production,
                             {.step = step_,
                              .microbatch = last,
                              .layer = entry.layer,
                              .tensor = "main_grad:" + entry.parameter.name},
                             entry.parameter.main_grad);
    }
  }
}

}  // namespace cgconform::workloads

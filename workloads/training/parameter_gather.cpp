#include "workloads/training/parameter_gather.hpp"

#include <algorithm>
#include <cstddef>
#include <string>

#include <fmt/format.h>

#include "workloads/training/tensor_ops.hpp"

namespace cgconform::workloads {
namespace {

/// Shares begin at multiples of so many elements, as kernels read memory in stretches.
constexpr std::int64_t share_unit = 32;

/// The ranks that have a share of the bucket; null where this one has all of it.
Communicator* sharing_ranks(const matrix::Cell& cell, const ParameterBucket& bucket,
                            const ReplicaGroups& groups) {
  if (!cell.config.use_distributed_optimizer) return nullptr;
  return bucket.of_experts ? groups.expert_replicas : groups.replicas;
}

std::int64_t elements_before(const ParameterChunk& chunk, const Parameter& parameter) {
  const auto* begin = static_cast<const std::byte*>(chunk.weights.data);
  const auto* data = static_cast<const std::byte*>(parameter.weight.data);
  const bool inside = data >= begin && data < begin + chunk.weights.bytes();
  return inside ? (data - begin) / dtype_bytes(parameter.weight.dtype) : -1;
}

}  // namespace

std::vector<ParameterBucket> parameter_buckets(const StageModel& model, std::int64_t bucket_size) {
  std::vector<ParameterBucket> buckets;
  for (const ParameterChunk& chunk : model.parameter_chunks()) {
    std::int64_t first = 0;
    bool of_experts = false;
    std::vector<std::pair<ModelPart, std::int32_t>> owners;
    const auto close = [&](std::int64_t end) {
      if (owners.empty()) return;
      const Shape shape{end - first};
      buckets.push_back(
          {{elements_of(chunk.weights, first, shape), elements_of(chunk.main_grads, first, shape)},
           of_experts,
           std::move(owners)});
      owners = {};
      first = end;
    };
    // Parameters lie in the order in which a forward reads them.
    for (const StageParameter& entry : model.parameters()) {
      const std::int64_t begin = elements_before(chunk, entry.parameter);
      if (begin < 0) continue;
      if (begin - first >= bucket_size || entry.parameter.of_experts != of_experts) close(begin);
      of_experts = entry.parameter.of_experts;
      owners.emplace_back(entry.part, entry.layer);
    }
    close(chunk.weights.elements());
  }
  return buckets;
}

TensorView share_of(const TensorView& memory, int rank, int replicas) {
  const std::int64_t units = memory.elements() / share_unit;
  const auto boundary = [&](std::int64_t number) {
    return number == replicas ? memory.elements() : units * number / replicas * share_unit;
  };
  const std::int64_t first = boundary(rank);
  return elements_of(memory, first, Shape{boundary(rank + 1) - first});
}

std::vector<ParameterChunk> stepped_parameters(const matrix::Cell& cell, const StageModel& model,
                                               const ReplicaGroups& groups) {
  const std::span<const ParameterChunk> chunks = model.parameter_chunks();
  if (!cell.config.use_distributed_optimizer || groups.replicas == nullptr) {
    return {chunks.begin(), chunks.end()};
  }
  std::vector<ParameterChunk> shares;
  for (const ParameterBucket& bucket : parameter_buckets(model, cell.shape.bucket_size)) {
    const Communicator* ranks = sharing_ranks(cell, bucket, groups);
    const int rank = ranks == nullptr ? 0 : ranks->rank();
    const int size = ranks == nullptr ? 1 : ranks->size();
    const ParameterChunk own{share_of(bucket.memory.weights, rank, size),
                             share_of(bucket.memory.main_grads, rank, size)};
    if (own.weights.elements() > 0) shares.push_back(own);
  }
  return shares;
}

ParameterGather::ParameterGather(LegContext& context, const StageModel& model,
                                 const ReplicaGroups& groups)
    : context_(context), overlaps_(context.cell.config.overlap_param_gather) {
  if (groups.replicas == nullptr) return;
  for (ParameterBucket& bucket : parameter_buckets(model, context.cell.shape.bucket_size)) {
    Communicator* ranks = sharing_ranks(context.cell, bucket, groups);
    if (ranks == nullptr) continue;
    Bucket& shared = buckets_.emplace_back();
    shared.parameters = std::move(bucket);
    shared.ranks = ranks;
  }
  if (!buckets_.empty()) stream_ = context.device().create_stream("parameter gather");
}

void ParameterGather::after_step() {
  if (!overlaps_) gather_all();
}

void ParameterGather::gather_all() {
  for (std::size_t index = 0; index < buckets_.size(); ++index) {
    gather(buckets_[index], context_.stream(), fmt::format("parameter gather bucket {}", index));
  }
}

void ParameterGather::begin(std::int32_t step, bool first_step, bool capturing, bool replaying) {
  step_ = step;
  capturing_ = capturing;
  const bool left_out =
      context_.fault(Fault::f01g_parameters_not_gathered) && (capturing || replaying);
  hooks_on_ = !buckets_.empty() && overlaps_ && !first_step && !left_out;
  for (Bucket& bucket : buckets_) {
    bucket.gathered.reset();
    bucket.awaited = false;
  }
}

bool ParameterGather::holds(const Bucket& bucket, ModelPart part, std::int32_t layer) const {
  const auto& owners = bucket.parameters.owners;
  return std::find(owners.begin(), owners.end(), std::pair{part, layer}) != owners.end();
}

void ParameterGather::before(ModelPart part, std::int32_t layer) {
  if (!hooks_on_) return;
  for (std::size_t index = 0; index < buckets_.size(); ++index) {
    if (buckets_[index].awaited || !holds(buckets_[index], part, layer)) continue;
    // All replicas launch in one order, whichever part comes first.
    for (std::size_t earlier = 0; earlier <= index; ++earlier) launch(earlier);
    wait(index);
    if (index + 1 < buckets_.size()) launch(index + 1);
  }
}

void ParameterGather::finish() {
  if (!hooks_on_) return;
  for (std::size_t index = 0; index < buckets_.size(); ++index) {
    launch(index);
    if (!buckets_[index].awaited) wait(index);
  }
}

void ParameterGather::launch(std::size_t index) {
  Bucket& bucket = buckets_[index];
  if (bucket.gathered) return;
  const std::unique_ptr<Event> stepped = context_.device().create_event();
  context_.stream().record(*stepped);
  stream_->wait(*stepped);
  gather(bucket, *stream_, fmt::format("step {} parameter gather bucket {}", step_, index));
  bucket.gathered = context_.device().create_event();
  stream_->record(*bucket.gathered);
  GatherRecord record{.step = step_,
                      .bucket = static_cast<std::int32_t>(index),
                      .captured = capturing_,
                      .executions_before = context_.record.executions.size()};
  for (const auto& [part, layer] : bucket.parameters.owners) record.layers.push_back(layer);
  context_.record.gathers.push_back(std::move(record));
}

void ParameterGather::wait(std::size_t index) {
  context_.stream().wait(*buckets_[index].gathered);
  buckets_[index].awaited = true;
}

void ParameterGather::gather(const Bucket& bucket, Stream& stream, const std::string& label) {
  for (int rank = 0; rank < bucket.ranks->size(); ++rank) {
    const TensorView share = share_of(bucket.parameters.memory.weights, rank, bucket.ranks->size());
    if (share.elements() > 0) bucket.ranks->broadcast(share, rank, stream, label);
  }
}

void ParameterGather::gather_inside(std::int32_t layer) {
  for (const Bucket& bucket : buckets_) {
    if (!holds(bucket, ModelPart::layer, layer)) continue;
    gather(bucket, context_.stream(), fmt::format("parameter gather of layer {}", layer));
  }
}

}  // namespace cgconform::workloads

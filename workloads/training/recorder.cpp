#include "workloads/training/recorder.hpp"

#include <algorithm>
#include <memory>
#include <tuple>
#include <utility>

#include "workloads/layers/checkpoint.hpp"
#include "workloads/training/tensor_ops.hpp"

namespace cgconform::workloads {
namespace {

constexpr std::int64_t cells_a_chunk = 4096;

TensorView cell_of(const Buffer& chunk, std::size_t index) {
  TensorView cell = chunk.view();
  cell.data = static_cast<std::byte*>(cell.data) + index * sizeof(std::uint64_t);
  cell.shape = Shape{1};
  return cell;
}

}  // namespace

Recorder::Recorder(CachingAllocator& allocator, Stream& stream, bool instrumented)
    : allocator_(allocator),
      stream_(&stream),
      instrumented_(instrumented),
      pool_(allocator.create_pool("observations")) {}

void Recorder::observe(ObservedQuantity quantity, const TensorLocation& where,
                       const TensorView& value) {
  if (muted_ > 0) return;
  if (!capturing()) {
    Buffer snapshot(allocator_, *stream_, pool_, value.dtype, value.shape, "observation");
    copy(snapshot.view(), value, where.tensor.text());
    observations_.push_back({quantity, where, std::move(snapshot)});
    return;
  }
  if (!instrumented_ && quantity != ObservedQuantity::loss) return;
  Buffer slot(allocator_, *stream_, slots_pool_, value.dtype, value.shape, "observation slot");
  stream_->copy(slot.view(), value, "observe " + where.tensor.text());
  slots_->observed.push_back({quantity, where, std::move(slot)});
}

void Recorder::copy(const TensorView& snapshot, const TensorView& value, const std::string& name) {
  if (gathers_) {
    gathered_.push_back({snapshot, value});
  } else {
    stream_->copy(snapshot, value, "observe " + name);
  }
}

void Recorder::make_copies() {
  gathers_ = false;
  const std::vector<CopyPair> pairs = std::exchange(gathered_, {});
  copies(*stream_, pairs, "observe");
}

void Recorder::observe_parts(ObservedQuantity quantity, std::int32_t step,
                             std::span<const ObservedPart> parts,
                             std::span<const TensorView> chunks) {
  if (muted_ > 0) return;
  std::vector<std::shared_ptr<const Buffer>> copies(chunks.size());
  for (const ObservedPart& part : parts) {
    const TensorView& value = part.value;
    TensorLocation where = part.where;
    where.step = step;
    const auto* data = static_cast<const std::byte*>(value.data);
    const auto chunk = std::find_if(chunks.begin(), chunks.end(), [&](const TensorView& one) {
      const auto* begin = static_cast<const std::byte*>(one.data);
      return data >= begin && data < begin + one.bytes();
    });
    if (chunk == chunks.end()) {
      observe(quantity, where, value);
      continue;
    }
    auto& copy = copies[static_cast<std::size_t>(chunk - chunks.begin())];
    if (!copy) {
      copy = std::make_shared<const Buffer>(allocator_, *stream_, pool_, chunk->dtype, chunk->shape,
                                            "observation");
      this->copy(copy->view(), *chunk, where.tensor.text());
    }
    const std::int64_t offset = data - static_cast<const std::byte*>(chunk->data);
    const TensorView view{static_cast<std::byte*>(copy->view().data) + offset, value.dtype,
                          value.shape};
    observations_.push_back({quantity, std::move(where), Snapshot(copy, view)});
  }
}

void Recorder::hash(SlotKind kind, SlotMoment moment, const TensorLocation& where,
                    const TensorView& value) {
  if (muted_ > 0 || !instrumented_) return;
  if (!capturing()) {
    checksum(*stream_, append({kind, moment, where}), value, "hash " + where.tensor.text());
    return;
  }
  Buffer cell = slots_->canary.valid() ? std::move(slots_->canary)
                                       : Buffer(allocator_, *stream_, slots_pool_, DType::uint64,
                                                Shape{1}, "hash cell");
  checksum(*stream_, cell.view(), value, "hash " + where.tensor.text());
  slots_->hashed.push_back({kind, moment, where, std::move(cell)});
}

void Recorder::prepare_graph(GraphSlots& slots) {
  if (!instrumented_) return;
  slots.canary =
      Buffer(allocator_, *stream_, default_pool, DType::uint64, Shape{1}, "first hash cell");
  stream_->fill(slots.canary.view(), 0, "first hash cell");
}

bool Recorder::has_run(const GraphSlots& slots) {
  if (slots.hashed.empty()) return false;
  std::uint64_t hash = 0;
  stream_->download(&hash, slots.hashed.front().cell.view());
  return hash != 0;
}

void Recorder::begin_graph(GraphSlots& slots, PoolId pool) {
  slots_ = &slots;
  slots_pool_ = pool;
}

void Recorder::end_graph() {
  slots_ = nullptr;
}

void Recorder::collect(const GraphSlots& slots, std::int32_t step, std::int32_t microbatch) {
  const auto at_replay = [&](TensorLocation where) {
    where.step = step;
    if (microbatch >= 0) where.microbatch = microbatch;
    return where;
  };
  for (const GraphSlots::Observed& observed : slots.observed) {
    observe(observed.quantity, at_replay(observed.where), observed.slot.view());
  }
  for (const GraphSlots::Hashed& hashed : slots.hashed) {
    const TensorView cell = append({hashed.kind, hashed.moment, at_replay(hashed.where)});
    stream_->copy(cell, hashed.cell.view(), "collect hash");
  }
}

std::vector<RoutingRecord> Recorder::read_routing() const {
  std::vector<RoutingRecord> records;
  for (const Observation& observation : observations_) {
    if (observation.quantity != ObservedQuantity::routing) continue;
    const TensorView& view = observation.snapshot.view();
    RoutingRecord& record = records.emplace_back();
    record.where = observation.where;
    record.values.resize(static_cast<std::size_t>(view.elements()));
    stream_->download(record.values.data(), view);
  }
  return records;
}

std::vector<Observation> Recorder::take_observations() {
  return std::exchange(observations_, {});
}

std::vector<SlotRecord> Recorder::take_slot_records() {
  std::vector<std::uint64_t> values;
  for (const Buffer& chunk : hash_chunks_) {
    const std::size_t first = values.size();
    values.resize(first + static_cast<std::size_t>(cells_a_chunk));
    stream_->download(values.data() + first, chunk.view());
  }
  using Key = std::tuple<SlotKind, std::int32_t, std::int32_t, std::int32_t, bool, std::string>;
  std::map<Key, std::uint64_t> produced;
  std::vector<SlotRecord> records;
  for (std::size_t i = 0; i < hash_log_.size(); ++i) {
    const HashEntry& entry = hash_log_[i];
    Key key{entry.kind,        entry.where.step,       entry.where.microbatch,
            entry.where.layer, entry.where.validation, entry.where.tensor.text()};
    if (entry.moment == SlotMoment::production) {
      produced[std::move(key)] = values[i];
    } else if (const auto production = produced.find(key); production != produced.end()) {
      records.push_back({entry.kind, entry.where, production->second, values[i]});
    }
  }
  hash_log_.clear();
  hash_chunks_.clear();
  return records;
}

TensorView Recorder::append(const HashEntry& entry) {
  const std::size_t index = hash_log_.size() % static_cast<std::size_t>(cells_a_chunk);
  if (index == 0) {
    hash_chunks_.emplace_back(allocator_, *stream_, pool_, DType::uint64, Shape{cells_a_chunk},
                              "hash log");
  }
  hash_log_.push_back(entry);
  return cell_of(hash_chunks_.back(), index);
}

void RecordingTap::tap(std::string_view tensor, const TensorView& value) {
  TensorLocation where = where_;
  auto quantity = ObservedQuantity::layer_output;
  if (tensor.starts_with(recomputed_prefix)) {
    tensor.remove_prefix(recomputed_prefix.size());
    quantity = ObservedQuantity::recomputed_mask;
  } else if (tensor.find("mask") != std::string_view::npos) {
    quantity = ObservedQuantity::dropout_mask;
  } else if (tensor.starts_with(routing_prefix)) {
    quantity = ObservedQuantity::routing;
  }
  where.tensor = tensor;
  recorder_.observe(quantity, where, value);
}

}  // namespace cgconform::workloads

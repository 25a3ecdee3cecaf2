#include "workloads/training/batch_slots.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <type_traits>

#include "matrix/error.hpp"
#include "workloads/training/tensor_ops.hpp"

namespace cgconform::workloads {
namespace {

template <typename T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

std::vector<std::byte> mask_bytes(const std::vector<double>& mask, DType type) {
  if (type == DType::fp64) return bytes_of(mask);
  return bytes_of(std::vector<float>(mask.begin(), mask.end()));
}

/// A pool that two streams free in keeps a point of the stream with every free block. Batches are
/// freed on the loader's stream: in a pool of their own they leave the default pool to the main
/// stream. Instrumented legs poison the default pool, batches included.
PoolId make_source_pool(LegContext& context) {
  if (context.recorder.instrumented()) return default_pool;
  return context.allocator().create_pool("batches");
}

}  // namespace

BatchSlots::BatchSlots(LegContext& context, const DataLoader& loader)
    : context_(context),
      loader_(loader),
      parts_{Part::tokens, Part::labels, Part::loss_mask},
      mask_type_(arithmetic_type(context.model_type())),
      source_pool_(make_source_pool(context)) {
  if (loader.shape().packed) parts_.push_back(Part::cu_seqlens);
  if (loader.shape().image_tokens > 0) parts_.push_back(Part::images);
}

Buffer& BatchSlots::part(Tensors& tensors, Part which) {
  switch (which) {
    case Part::tokens:
      return tensors.tokens;
    case Part::labels:
      return tensors.labels;
    case Part::cu_seqlens:
      return tensors.cu_seqlens;
    case Part::images:
      return tensors.images;
    case Part::loss_mask:
      break;
  }
  return tensors.loss_mask;
}

const char* BatchSlots::part_name(Part which) {
  switch (which) {
    case Part::tokens:
      return "tokens";
    case Part::labels:
      return "labels";
    case Part::cu_seqlens:
      return "cu_seqlens";
    case Part::images:
      return "images";
    case Part::loss_mask:
      break;
  }
  return "loss_mask";
}

TensorLocation BatchSlots::location(const IterationCall& call, std::int32_t microbatch,
                                    Part which) const {
  return {.step = call.step,
          .microbatch = microbatch,
          .validation = call.mode == IterationMode::validation,
          .tensor = part_name(which)};
}

BatchSlots::Tensors BatchSlots::allocate(PoolId pool, const char* label) {
  const Shape shape{loader_.shape().tokens()};
  CachingAllocator& allocator = context_.allocator();
  Stream& stream = *context_.memory.loader;
  Tensors tensors{Buffer(allocator, stream, pool, DType::int32, shape, label),
                  Buffer(allocator, stream, pool, DType::int32, shape, label),
                  Buffer(allocator, stream, pool, mask_type_, shape, label),
                  {}};
  if (loader_.shape().packed) {
    tensors.cu_seqlens = Buffer(allocator, stream, pool, DType::int32,
                                {loader_.shape().sequences, packed_borders}, label);
  }
  if (const std::int64_t images = loader_.shape().image_tokens; images > 0) {
    tensors.images = Buffer(allocator, stream, pool, mask_type_,
                            {loader_.shape().sequences * images, patch_size}, label);
  }
  return tensors;
}

const std::vector<std::byte>& BatchSlots::stage(const HostBatch& batch, Part which) {
  switch (which) {
    case Part::tokens:
      return staging_.emplace_back(bytes_of(batch.tokens));
    case Part::labels:
      return staging_.emplace_back(bytes_of(batch.labels));
    case Part::cu_seqlens:
      return staging_.emplace_back(bytes_of(batch.cu_seqlens));
    case Part::images:
      return staging_.emplace_back(mask_bytes(batch.images, mask_type_));
    case Part::loss_mask:
      break;
  }
  return staging_.emplace_back(mask_bytes(batch.loss_mask, mask_type_));
}

void BatchSlots::load(const IterationCall& call, std::int32_t microbatches,
                      const CaptureImplementation& implementation) {
  Stream& loader = *context_.memory.loader;
  Stream& main = context_.stream();
  const bool in_slots = implementation.needs_static_batches();
  const std::uint64_t replays = implementation.iteration_replays(call.mode);

  const std::unique_ptr<Event> consumed = context_.device().create_event();
  main.record(*consumed);
  loader.wait(*consumed);
  std::vector<CopyPair> refreshed;
  const auto use = call.mode == IterationMode::training ? BatchUse::training : BatchUse::validation;
  for (std::int32_t microbatch = 0; microbatch < microbatches; ++microbatch) {
    const Key key{call.mode, microbatch};
    const HostBatch host = loader_.batch(use, call.step, microbatch);
    Tensors& source = sources_[key];
    source = allocate(source_pool_, "batch");
    if (in_slots && !slots_.contains(key)) slots_[key] = allocate(default_pool, "static batch");
    for (const Part which : parts_) {
      const TensorView& view = part(source, which).view();
      loader.upload(view, stage(host, which).data(), true, std::string("load ") + part_name(which));
      if (in_slots) refresh(call, microbatch, which, host, replays, refreshed);
    }
    const bool partial = call.partial && microbatch + 1 == microbatches;
    batches_[key] = device_batch(in_slots ? slots_[key] : source, host, partial);
  }
  copies(loader, refreshed, "refresh batch");
  const std::unique_ptr<Event> loaded = context_.device().create_event();
  loader.record(*loaded);
  main.wait(*loaded);

  context_.recorder.gather_copies();
  for (std::int32_t microbatch = 0; microbatch < microbatches; ++microbatch) {
    for (const Part which : parts_) {
      const TensorLocation where = location(call, microbatch, which);
      const TensorView& source = part(sources_[{call.mode, microbatch}], which).view();
      context_.recorder.observe(ObservedQuantity::input_batch, where, source);
      if (in_slots) {
        context_.recorder.hash(SlotKind::static_input, SlotMoment::production, where, source);
      }
    }
  }
  context_.recorder.make_copies();
  for (std::int32_t microbatch = 0; in_slots && microbatch < microbatches; ++microbatch) {
    overwrite_staging(call, microbatch);
  }
}

DeviceBatch BatchSlots::device_batch(const Tensors& tensors, const HostBatch& host,
                                     bool partial) const {
  const BatchShape& shape = loader_.shape();
  const std::int64_t sequences = partial ? host.sequences : shape.sequences;
  const auto held = [sequences](const Buffer& tensor, std::int64_t rows_a_sequence) {
    return tensor.valid() ? rows_of(tensor.view(), 0, sequences * rows_a_sequence) : TensorView{};
  };
  return {held(tensors.tokens, shape.length),
          held(tensors.labels, shape.length),
          held(tensors.loss_mask, shape.length),
          held(tensors.cu_seqlens, 1),
          held(tensors.images, shape.image_tokens),
          host.valid_length,
          std::count(host.loss_mask.begin(), host.loss_mask.end(), 1.0)};
}

void BatchSlots::refresh(const IterationCall& call, std::int32_t microbatch, Part which,
                         const HostBatch& batch, std::uint64_t replays,
                         std::vector<CopyPair>& copies) {
  const Key key{call.mode, microbatch};
  const TensorView& source = part(sources_[key], which).view();
  const TensorView& slot = part(slots_[key], which).view();
  if (replays >= 1 && context_.fault(Fault::f01a_batch_in_new_block)) return;
  if (which == Part::loss_mask && call.step % 2 == 1 &&
      context_.fault(Fault::f01b_optional_input_not_refreshed)) {
    return;
  }
  const bool holds_rows = which != Part::cu_seqlens && which != Part::images;
  if (which == Part::cu_seqlens) {
    if (replays >= 1 && context_.fault(Fault::f01e_sequence_borders_not_refreshed)) return;
  } else if (holds_rows && context_.fault(Fault::f01c_stale_padding_rows)) {
    copy_valid_rows(slot, source, batch, copies);
    return;
  }
  if (holds_rows && context_.fault(Fault::f01f_missing_sequences_not_cleared)) {
    const std::int64_t rows = batch.sequences * loader_.shape().length;
    copies.push_back({rows_of(slot, 0, rows), rows_of(source, 0, rows)});
    return;
  }
  copies.push_back({slot, source});
}

void BatchSlots::copy_valid_rows(const TensorView& slot, const TensorView& source,
                                 const HostBatch& batch, std::vector<CopyPair>& copies) const {
  const BatchShape& shape = loader_.shape();
  for (std::int64_t sequence = 0; sequence < shape.sequences; ++sequence) {
    const std::int64_t first = sequence * shape.length;
    copies.push_back(
        {rows_of(slot, first, batch.valid_length), rows_of(source, first, batch.valid_length)});
  }
}

const DeviceBatch& BatchSlots::batch(IterationMode mode, std::int32_t microbatch) const {
  const auto found = batches_.find({mode, microbatch});
  if (found == batches_.end()) throw InternalError("batch slots: a micro-batch was not loaded");
  return found->second;
}

void BatchSlots::enter_body(const IterationCall& call, const BodyMode& mode) {
  for (auto& [key, slot] : slots_) {
    if (key.first != call.mode) continue;
    if (mode.capturing && context_.fault(Fault::f01d_staging_overwritten)) {
      context_.stream().upload(slot.loss_mask.view(), captured_staging_.at(key.second).data(), true,
                               "captured load loss_mask");
    }
    for (const Part which : parts_) {
      context_.recorder.hash(SlotKind::static_input, SlotMoment::use,
                             location(call, key.second, which), part(slot, which).view());
    }
  }
}

void BatchSlots::overwrite_staging(const IterationCall& call, std::int32_t microbatch) {
  if (!context_.fault(Fault::f01d_staging_overwritten)) return;
  // The host has moved on to the next batch before the captured copy reads the block. The change
  // is made in stream order ahead of the replay, so that no timing can hide it.
  const auto use = call.mode == IterationMode::training ? BatchUse::training : BatchUse::validation;
  std::vector<std::byte> next =
      mask_bytes(loader_.batch(use, call.step + 1, microbatch).loss_mask, mask_type_);
  std::vector<std::byte>& staging = captured_staging_[microbatch];
  if (staging.empty()) staging.resize(next.size());
  context_.stream().host_function(
      [target = staging.data(), next = std::move(next)] {
        std::memcpy(target, next.data(), next.size());
      },
      "host loader moves on");
}

void BatchSlots::poison() {
  for (auto& [key, slot] : slots_) {
    context_.stream().fill(slot.tokens.view(), 0, "poison static batch");
    context_.stream().fill(slot.labels.view(), 0, "poison static batch");
    context_.stream().fill(slot.loss_mask.view(), 0xFF, "poison static batch");
    if (slot.images.valid()) {
      context_.stream().fill(slot.images.view(), 0xFF, "poison static batch");
    }
    if (slot.cu_seqlens.valid()) {
      context_.stream().fill(slot.cu_seqlens.view(), 0, "poison static batch");
    }
  }
}

void BatchSlots::clear() {
  batches_.clear();
  slots_.clear();
  sources_.clear();
  staging_.clear();
  captured_staging_.clear();
}

void BatchSlots::trim() {
  context_.allocator().trim(source_pool_);
}

}  // namespace cgconform::workloads

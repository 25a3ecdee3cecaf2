#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace cgconform::workloads {

/// One rank's place in a pipeline, as far as the order of captured graphs depends on it.
struct CaptureLayout {
  std::int32_t pipeline_stages = 1;
  std::int32_t rank = 0;
  std::int32_t chunks = 1;  ///< model chunks a stage; 1 is the schedule without interleaving
  std::int32_t microbatches = 1;
  std::optional<std::int32_t> microbatch_group;  ///< of a virtual stage; absent means stages
  std::int32_t layers_per_chunk = 1;
  std::int32_t extra_warmup = 0;  ///< forwards run ahead beyond what the schedule needs
  /// Expert-parallel communication is overlapped: a single stage, too, captures all micro-batches.
  bool overlaps = false;
};

/// A micro-batch of a chunk, both from 0.
struct ScheduleEntry {
  std::int32_t microbatch = 0;
  std::int32_t chunk = 0;
  friend bool operator==(const ScheduleEntry&, const ScheduleEntry&) = default;
};

/// The order in which ahead-of-time callables are captured and replayed (Transformer Engine's
/// `_order`): c is a forward of chunk c - 1, -c a backward.
struct CaptureOrder {
  std::vector<ScheduleEntry> table;  ///< forwards in order; backwards use it with chunks reversed
  std::vector<std::int32_t> order;
  std::int32_t warmup = 0;             ///< forwards before the first backward
  std::int32_t static_input_sets = 0;  ///< distinct sets when finished ones are recycled
};

/// Forwards in order, for any number of micro-batches: cut into groups, inside a group chunk 0 for
/// all of its micro-batches, then chunk 1, and so on. Backwards use it with the chunks reversed.
std::vector<ScheduleEntry> schedule_table(std::int32_t microbatches, std::int32_t chunks,
                                          std::int32_t group);

/// Derives the order of Megatron-Core's schedules (constraints: te-pp1-single-chunk, vp-needs-pp,
/// vp-group-range, vp-final-group). A single stage captures one micro-batch. Throws InputError that
/// names the violated rule.
CaptureOrder capture_order(const CaptureLayout& layout);

/// How an order is written out layer by layer.
struct LayerOrder {
  std::vector<std::int32_t> layers_per_chunk;
  /// By layer over all chunks: its weight gradients have an entry of their own. Empty: none have.
  std::vector<bool> wgrads{};
  /// From the first backward on, a backward and the forward after it take turns, as
  /// expert-parallel overlap runs them.
  bool overlaps = false;
};

/// The order with one layer a chunk (rule te-wgrad-one-layer-chunks): layers are counted from 1
/// over all chunks, k is a forward of layer k, -k its backward, and -k.5 the weight gradients that
/// this has left.
std::vector<double> layer_order(const std::vector<std::int32_t>& order, const LayerOrder& written);

}  // namespace cgconform::workloads

#include "workloads/parallel/capture_order.hpp"

#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>

#include "matrix/error.hpp"

namespace cgconform::workloads {

namespace {

void require_positive(const char* name, std::int32_t value) {
  if (value >= 1) return;
  throw InputError(fmt::format("{} is {}, it must be at least 1", name, value));
}

std::int32_t group_of(const CaptureLayout& layout) {
  return layout.microbatch_group.value_or(layout.pipeline_stages);
}

void validate(const CaptureLayout& layout) {
  require_positive("the number of pipeline stages", layout.pipeline_stages);
  require_positive("the number of model chunks", layout.chunks);
  require_positive("the number of micro-batches", layout.microbatches);
  require_positive("the number of layers per chunk", layout.layers_per_chunk);
  if (layout.rank < 0 || layout.rank >= layout.pipeline_stages) {
    throw InputError(fmt::format("rank {} is not in the pipeline, the nearest valid one is {}",
                                 layout.rank,
                                 std::clamp(layout.rank, 0, layout.pipeline_stages - 1)));
  }
  if (layout.chunks == 1) return;
  if (layout.pipeline_stages == 1) {
    throw InputError(
        fmt::format("vp-needs-pp: {} model chunks on a single stage; virtual pipeline stages need "
                    "more than one pipeline stage (te-pp1-single-chunk: one stage captures one "
                    "chunk)",
                    layout.chunks));
  }
  const std::int32_t group = group_of(layout);
  if (group < layout.pipeline_stages || group > layout.microbatches) {
    throw InputError(fmt::format(
        "vp-group-range: a group of {} micro-batches; it must be at least the number of pipeline "
        "stages ({}) and at most the number of micro-batches ({})",
        group, layout.pipeline_stages, layout.microbatches));
  }
  const std::int32_t last = layout.microbatches % group;
  if (last != 0 && last < layout.pipeline_stages) {
    throw InputError(fmt::format(
        "vp-final-group: {} micro-batches in groups of {} leave a last group of {}; it must be "
        "empty or at least the number of pipeline stages ({})",
        layout.microbatches, group, last, layout.pipeline_stages));
  }
}

std::int32_t warmup_of(const CaptureLayout& layout, std::int32_t total) {
  if (layout.pipeline_stages == 1) return 0;
  const std::int32_t behind = layout.pipeline_stages - layout.rank - 1;
  const std::int32_t wanted =
      layout.chunks == 1 ? behind : 2 * behind + (layout.chunks - 1) * group_of(layout);
  return std::min(wanted + layout.extra_warmup, total);
}

}  // namespace

std::vector<ScheduleEntry> schedule_table(std::int32_t microbatches, std::int32_t chunks,
                                          std::int32_t group) {
  std::vector<ScheduleEntry> table;
  table.reserve(static_cast<std::size_t>(microbatches) * static_cast<std::size_t>(chunks));
  for (std::int32_t first = 0; first < microbatches; first += group) {
    const std::int32_t end = std::min(first + group, microbatches);
    for (std::int32_t chunk = 0; chunk < chunks; ++chunk) {
      for (std::int32_t microbatch = first; microbatch < end; ++microbatch) {
        table.push_back({microbatch, chunk});
      }
    }
  }
  return table;
}

CaptureOrder capture_order(const CaptureLayout& layout) {
  validate(layout);
  const bool one_for_all = layout.pipeline_stages == 1 && !layout.overlaps;
  const std::int32_t microbatches = one_for_all ? 1 : layout.microbatches;
  const std::int32_t group = layout.chunks == 1 ? microbatches : group_of(layout);
  const std::int32_t total = microbatches * layout.chunks;

  CaptureOrder result;
  result.table = schedule_table(microbatches, layout.chunks, group);
  result.warmup = warmup_of(layout, total);
  result.static_input_sets = layout.layers_per_chunk * std::min(result.warmup + 1, total);

  const auto forward = [&](std::int32_t index) {
    result.order.push_back(result.table[static_cast<std::size_t>(index)].chunk + 1);
  };
  const auto backward = [&](std::int32_t index) {
    result.order.push_back(result.table[static_cast<std::size_t>(index)].chunk - layout.chunks);
  };
  for (std::int32_t index = 0; index < result.warmup; ++index) forward(index);
  for (std::int32_t index = result.warmup; index < total; ++index) {
    forward(index);
    backward(index - result.warmup);
  }
  for (std::int32_t index = total - result.warmup; index < total; ++index) backward(index);
  return result;
}

std::vector<double> layer_order(const std::vector<std::int32_t>& order, const LayerOrder& written) {
  std::vector<double> entries;
  const auto layers_of = [&](std::int32_t entry) {
    return written.layers_per_chunk.at(static_cast<std::size_t>(std::abs(entry) - 1));
  };
  // The how manieth layer of an entry's chunk, in the order in which the entry runs them.
  const auto write = [&](std::int32_t entry, std::int32_t number) {
    std::int32_t before = 0;
    for (std::int32_t chunk = 1; chunk < std::abs(entry); ++chunk) before += layers_of(chunk);
    if (entry > 0) {
      entries.push_back(before + number + 1);
      return;
    }
    const std::int32_t layer = before + layers_of(entry) - number;
    entries.push_back(-layer);
    const auto index = static_cast<std::size_t>(layer - 1);
    if (index < written.wgrads.size() && written.wgrads[index]) entries.push_back(-layer - 0.5);
  };
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::int32_t entry = order[i];
    const bool paired = written.overlaps && entry < 0 && i + 1 < order.size() && order[i + 1] > 0;
    const std::int32_t forward = paired ? order[++i] : 0;
    const std::int32_t together = paired ? std::min(layers_of(entry), layers_of(forward)) : 0;
    for (std::int32_t layer = 0; layer < together; ++layer) {
      write(forward, layer);
      write(entry, layer);
    }
    for (std::int32_t layer = together; layer < layers_of(entry); ++layer) write(entry, layer);
    if (!paired) continue;
    for (std::int32_t layer = together; layer < layers_of(forward); ++layer) write(forward, layer);
  }
  return entries;
}

}  // namespace cgconform::workloads

#include "workloads/capture/transformer_engine_plan.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <deque>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "matrix/error.hpp"

namespace cgconform::workloads {

CallablePlan::CallablePlan(std::span<const double> order,
                           std::vector<std::int32_t> layers_per_chunk)
    : layers_per_chunk_(std::move(layers_per_chunk)), entries_(layers_per_chunk_.size()) {
  read(order);
  assign_inputs();
}

void CallablePlan::read(double entry) {
  const double number = std::floor(std::abs(entry));
  const double fraction = std::abs(entry) - number;
  const std::int32_t chunk = static_cast<std::int32_t>(number) - 1;
  const bool whole = fraction == 0.0;
  if (chunk < 0 || chunk >= chunks()) {
    throw InternalError(
        fmt::format("capture order: {} is no chunk of a stage with {}", entry, chunks()));
  }
  if (!whole && (entry > 0 || fraction != 0.5)) {
    throw InternalError(
        fmt::format("capture order: {} is no forward, backward -c or weight "
                    "gradient -c.5",
                    entry));
  }
  Entries& count = entries_[static_cast<std::size_t>(chunk)];
  if (entry > 0) {
    passes_.push_back({chunk, count.forwards++, true});
  } else if (whole) {
    passes_.push_back({chunk, count.backwards++, false});
  } else {
    passes_.push_back({chunk, count.wgrads++, false, true});
  }
  if (count.backwards > count.forwards) {
    throw InternalError(
        fmt::format("capture order: a backward of chunk {} before its forward", chunk));
  }
  if (count.wgrads > count.backwards) {
    throw InternalError(
        fmt::format("capture order: weight gradients of chunk {} before their backward", chunk));
  }
}

void CallablePlan::read(std::span<const double> order) {
  for (const double entry : order) read(entry);
  microbatches_ = entries_.empty() ? 0 : entries_.front().forwards;
  const bool splits = std::any_of(entries_.begin(), entries_.end(),
                                  [](const Entries& count) { return count.wgrads > 0; });
  const bool by_layers = std::all_of(layers_per_chunk_.begin(), layers_per_chunk_.end(),
                                     [](std::int32_t layers) { return layers == 1; });
  if (splits && !by_layers) {
    throw InternalError("capture order: weight gradients of chunks that are not one layer each");
  }
  for (const Entries& count : entries_) {
    if (count.forwards != microbatches_ || count.backwards != microbatches_) {
      throw InternalError("capture order: every chunk needs as many forwards as backwards");
    }
    if (count.wgrads != 0 && count.wgrads != microbatches_) {
      throw InternalError("capture order: weight gradients and backwards do not pair up");
    }
  }
}

std::size_t CallablePlan::index(std::int32_t chunk, std::int32_t microbatch,
                                std::int32_t layer) const {
  std::int32_t layers_before = 0;
  for (std::int32_t earlier = 0; earlier < chunk; ++earlier) layers_before += layers(earlier);
  const std::int32_t place = layers_before * microbatches_ + microbatch * layers(chunk) + layer;
  return static_cast<std::size_t>(place);
}

void CallablePlan::assign_inputs() {
  const std::int32_t all_layers =
      std::accumulate(layers_per_chunk_.begin(), layers_per_chunk_.end(), 0);
  const std::int32_t callables = all_layers * microbatches_;
  input_sets_.assign(static_cast<std::size_t>(callables), -1);
  std::deque<std::int32_t> finished;
  for (const OrderedPass& pass : passes_) {
    for (std::int32_t layer = 0; layer < layers(pass.chunk); ++layer) {
      std::int32_t& set = input_sets_[index(pass.chunk, pass.microbatch, layer)];
      if (!pass.forward) {
        if (pass.wgrad == splits_backward(pass.chunk)) finished.push_back(set);
      } else if (finished.empty()) {
        set = input_set_count_++;
      } else {
        set = finished.front();
        finished.pop_front();
      }
    }
  }
}

std::int32_t inner_warmups(std::int32_t warmup_steps, std::int32_t microbatches,
                           std::int32_t captured_microbatches) {
  constexpr std::int32_t runs_wanted = 10;
  const std::int32_t missing = runs_wanted - warmup_steps * microbatches;
  if (missing <= 0) return 1;
  return std::max(1, (missing + captured_microbatches - 1) / captured_microbatches);
}

}  // namespace cgconform::workloads

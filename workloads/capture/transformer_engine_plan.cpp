#include "workloads/capture/transformer_engine_plan.hpp"

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "matrix/error.hpp"

namespace cgconform::workloads {

CallablePlan::CallablePlan(std::span<const std::int32_t> order,
                           std::vector<std::int32_t> layers_per_chunk)
    : layers_per_chunk_(std::move(layers_per_chunk)) {
  read(order);
  assign_inputs();
}

void CallablePlan::read(std::span<const std::int32_t> order) {
  const std::size_t chunk_count = layers_per_chunk_.size();
  std::vector<std::int32_t> forwards(chunk_count, 0);
  std::vector<std::int32_t> backwards(chunk_count, 0);
  for (const std::int32_t entry : order) {
    const std::int32_t chunk = std::abs(entry) - 1;
    if (chunk < 0 || chunk >= chunks()) {
      throw InternalError(
          fmt::format("capture order: {} is no chunk of a stage with {}", entry, chunks()));
    }
    const auto at = static_cast<std::size_t>(chunk);
    std::int32_t& count = entry > 0 ? forwards[at] : backwards[at];
    passes_.push_back({chunk, count++, entry > 0});
    if (backwards[at] > forwards[at]) {
      throw InternalError(
          fmt::format("capture order: a backward of chunk {} before its forward", chunk));
    }
  }
  microbatches_ = forwards.empty() ? 0 : forwards.front();
  const auto differs = [this](std::int32_t count) { return count != microbatches_; };
  if (std::any_of(forwards.begin(), forwards.end(), differs) ||
      std::any_of(backwards.begin(), backwards.end(), differs)) {
    throw InternalError("capture order: every chunk needs as many forwards as backwards");
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
        finished.push_back(set);
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

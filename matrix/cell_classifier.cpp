#include "matrix/cell_classifier.hpp"

#include <algorithm>
#include <utility>

#include "matrix/layer_modules.hpp"

namespace cgconform::matrix {
namespace {

/// Entries of the memory of cells that others may equal; a power of two.
constexpr std::size_t remembered_cells = 1024;

bool captures_nothing(const Cell& normalised) {
  const TrainingConfig& config = normalised.config;
  const CudaGraphScope scope = config.cuda_graph_scope;
  if (config.cuda_graph_impl == CudaGraphImpl::none || scope.empty()) return false;
  if (!config.is_hybrid_model) return scope == CudaGraphScope{CudaGraphModule::mamba};
  return scope.is_subset_of(
             {CudaGraphModule::attn, CudaGraphModule::mlp, CudaGraphModule::mamba}) &&
         !scope.contains_any(modules_of_model(config));
}

/// NCCL registers buffers of graphs for transports between different GPUs only; over the sockets of
/// ranks that share one, such a cell would pass without having registered anything.
bool registers_buffers(const Cell& cell) {
  const std::optional<bool> wanted = cell.platform.nccl_graph_register;
  return cell.ranks() > 1 && wanted.value_or(cell.platform.expandable_segments);
}

}  // namespace

CellClassifier::CellClassifier(const Expansion& expansion, Selects selects, TargetDevice device,
                               bool gpus_shared, std::vector<std::string> lifted)
    : expansion_(expansion),
      selects_(std::move(selects)),
      device_(device),
      gpus_shared_(gpus_shared),
      lifted_(std::move(lifted)),
      equal_cells_(expansion, device),
      remembered_(remembered_cells) {}

const Classification& CellClassifier::classify(std::uint64_t index) {
  expansion_.coordinates(index, coordinates_);
  return classify(coordinates_);
}

const Classification& CellClassifier::classify(std::span<const std::uint32_t> coordinates) {
  judge_alone(coordinates);
  if (result_.status == CellStatus::run) look_for_equal(coordinates);
  return result_;
}

void CellClassifier::judge_alone(std::span<const std::uint32_t> coordinates) {
  expansion_.fill(coordinates, cell_);
  normalise(cell_, evaluation_, normalised_);
  result_.status = CellStatus::run;
  result_.kind = normalised_.config.cuda_graph_impl == CudaGraphImpl::none ? CellKind::baseline
                                                                           : CellKind::graph;
  result_.rules.clear();
  result_.lifted.clear();
  result_.skip = SkipReason::none;
  result_.feature = nullptr;
  for (const RuleIndex rule : evaluation_.violations) {
    (is_lifted(rule) ? result_.lifted : result_.rules).push_back(rule);
  }
  if (!result_.rules.empty()) {
    result_.status = CellStatus::refused;
    return;
  }
  result_.ranks_needed = normalised_.ranks();
  result_.ranks_allowed = expansion_.matrix().limits.max_ranks.value_or(INT32_MAX);
  canonical_ = normalised_;
  make_canonical(canonical_, device_);
  if (captures_nothing(normalised_)) {
    result_.skip = SkipReason::captures_nothing;
  } else if (const Feature* feature = missing_feature(canonical_, device_)) {
    result_.skip = SkipReason::not_built;
    result_.feature = feature;
  } else if (result_.ranks_needed > result_.ranks_allowed) {
    result_.skip = SkipReason::over_rank_limit;
  } else if (gpus_shared_ && registers_buffers(normalised_)) {
    result_.skip = SkipReason::shared_gpu;
  }
  if (result_.skip != SkipReason::none) result_.status = CellStatus::skipped;
}

void CellClassifier::look_for_equal(std::span<const std::uint32_t> coordinates) {
  const auto accept = [&](std::span<const std::uint32_t> candidate) {
    return selects_(candidate) && is_equal_and_runs(candidate, expansion_.index_of(candidate));
  };
  if (!equal_cells_.find_first(coordinates, cell_, normalised_, candidate_, accept)) return;
  result_.status = CellStatus::skipped;
  result_.skip = equal_cells_.differ_by_device(coordinates, candidate_, normalised_)
                     ? SkipReason::no_device_effect
                     : SkipReason::duplicate;
  result_.same_as = expansion_.index_of(candidate_);
}

bool CellClassifier::is_lifted(RuleIndex rule) const {
  return std::find(lifted_.begin(), lifted_.end(), rule_id(rule)) != lifted_.end();
}

bool CellClassifier::is_equal_and_runs(std::span<const std::uint32_t> coordinates,
                                       std::uint64_t index) {
  Remembered& entry = remembered_[(index ^ (index >> 10U)) % remembered_.size()];
  if (entry.index != index) {
    Cell cell;
    expansion_.fill(coordinates, cell);
    normalise(cell, evaluation_, entry.canonical);
    entry.index = index;
    entry.runs = std::all_of(evaluation_.violations.begin(), evaluation_.violations.end(),
                             [this](RuleIndex rule) { return is_lifted(rule); });
    make_canonical(entry.canonical, device_);
  }
  return entry.runs && same_run(entry.canonical, canonical_);
}

}  // namespace cgconform::matrix

#include "matrix/equal_cells.hpp"

#include <algorithm>
#include <array>

#include "matrix/layer_modules.hpp"
#include "matrix/virtual_stages.hpp"

namespace cgconform::matrix {
namespace {

bool graphs_off(const Cell& cell) {
  return cell.config.cuda_graph_impl == CudaGraphImpl::none;
}
bool captures_layers(const Cell& cell) {
  return cell.config.cuda_graph_impl == CudaGraphImpl::transformer_engine ||
         (cell.config.cuda_graph_impl == CudaGraphImpl::local &&
          !cell.config.cuda_graph_scope.contains(CudaGraphModule::full_iteration));
}
bool has_experts(const TrainingConfig& config) {
  return config.num_moe_experts.value_or(0) > 1;
}

const std::vector<std::string_view>& recompute_fields() {
  static const std::vector<std::string_view> fields{"recompute_granularity", "recompute_method",
                                                    "recompute_num_layers", "recompute_modules"};
  return fields;
}

/// Modules that recompute can name although the model has none of them.
RecomputeModules absent_modules(const TrainingConfig& config) {
  using enum RecomputeModule;
  RecomputeModules absent;
  if (!has_experts(config)) absent = absent | RecomputeModules{moe_act, moe, shared_experts};
  if (!config.moe_shared_expert_intermediate_size) absent.insert(shared_experts);
  if (!config.multi_latent_attention) absent.insert(mla_up_proj);
  if (config.experimental_attention_variant == ExperimentalAttentionVariant::none) {
    absent = absent | RecomputeModules{gdn_norm_out, gdp_in_proj, gdp_qkv};
  }
  if (!config.enable_mhc_connections) absent.insert(mhc);
  const CudaGraphScope modules = modules_of_model(config);
  if (!modules.contains(CudaGraphModule::attn)) absent.insert(core_attn);
  if (!modules.contains(CudaGraphModule::mlp)) absent.insert(mlp);
  return absent;
}

const std::vector<Collapse>& rows() {
  static const std::vector<Collapse> table{
      {"nothing is captured",
       false,
       {"cuda_graph_scope", "cuda_graph_warmup_steps", "cuda_graph_use_single_mempool",
        "inference_cuda_graph_scope", "graph_pool", "nccl_graph_register"},
       [](const Cell& cell, TargetDevice) { return graphs_off(cell); }},
      {"normalisation of the scope",
       false,
       {"cuda_graph_scope", "inference_cuda_graph_scope"},
       [](const Cell& cell, TargetDevice) { return !graphs_off(cell); }},
      {"the model has no Mamba layers",
       false,
       {"cuda_graph_scope"},
       [](const Cell& cell, TargetDevice) { return !cell.config.is_hybrid_model; }},
      {"the layers of a hybrid model are one module each",
       false,
       {"cuda_graph_scope", "recompute_granularity", "recompute_method", "recompute_num_layers",
        "recompute_modules"},
       [](const Cell& cell, TargetDevice) { return cell.config.is_hybrid_model; }},
      {"only hybrid models have a pattern of layers",
       false,
       {"hybrid_layer_pattern"},
       [](const Cell& cell, TargetDevice) { return !cell.config.is_hybrid_model; }},
      {"the model has no experts",
       false,
       {"moe_layer_freq", "moe_expert_capacity_factor", "moe_pad_expert_input_to_capacity",
        "moe_token_dispatcher_type", "moe_flex_dispatcher_backend", "moe_input_jitter_eps",
        "moe_shared_expert_intermediate_size", "moe_shared_expert_overlap", "moe_grouped_gemm"},
       [](const Cell& cell, TargetDevice) { return !has_experts(cell.config); }},
      {"recompute that its granularity does not read", false, recompute_fields(),
       [](const Cell&, TargetDevice) { return true; }},
      {"recompute of experts in a model without", false, recompute_fields(),
       [](const Cell& cell, TargetDevice) { return !has_experts(cell.config); }},
      {"recompute of shared experts in a model without", false, recompute_fields(),
       [](const Cell& cell, TargetDevice) {
         return !cell.config.moe_shared_expert_intermediate_size;
       }},
      {"recompute of latent attention in a model without", false, recompute_fields(),
       [](const Cell& cell, TargetDevice) { return !cell.config.multi_latent_attention; }},
      {"recompute of gated delta attention in a model without", false, recompute_fields(),
       [](const Cell& cell, TargetDevice) {
         return cell.config.experimental_attention_variant == ExperimentalAttentionVariant::none;
       }},
      {"recompute of hyper-connections in a model without", false, recompute_fields(),
       [](const Cell& cell, TargetDevice) { return !cell.config.enable_mhc_connections; }},
      {"one model chunk a stage",
       false,
       {"virtual_pipeline_model_parallel_size", "microbatch_group_size_per_vp_stage"},
       [](const Cell& cell, TargetDevice) { return chunks_a_stage(cell) == 1; }},
      {"no fp8",
       false,
       {"fp8_recipe", "fp8_margin", "fp8_amax_history_len", "fp8_amax_compute_algo",
        "tp_only_amax_red"},
       [](const Cell& cell, TargetDevice) { return cell.config.fp8 == Fp8Format::none; }},
      {"fp8 without a history of magnitudes",
       false,
       {"fp8_margin", "fp8_amax_history_len", "fp8_amax_compute_algo", "tp_only_amax_red"},
       [](const Cell& cell, TargetDevice) { return cell.config.fp8_recipe != Fp8Recipe::delayed; }},
      {"one replica",
       false,
       {"bucket_size", "overlap_grad_reduce"},
       [](const Cell& cell, TargetDevice) { return cell.config.data_parallel_size == 1; }},
      {"no layer is captured by itself",
       false,
       {"graphed_layers"},
       [](const Cell& cell, TargetDevice) { return !captures_layers(cell); }},
      {"the iteration is not captured",
       false,
       {"capture_form"},
       [](const Cell& cell, TargetDevice) { return graphs_off(cell); }},
      {"the optimizer is in the iteration's graph",
       false,
       {"optimizer_cuda_graph"},
       [](const Cell& cell, TargetDevice) {
         return cell.shape.capture_form == CaptureForm::whole_step;
       }},
      {"no validation step",
       false,
       {"eval_iters"},
       [](const Cell& cell, TargetDevice) { return cell.shape.eval_interval == 0; }},
      {"the reference device has no NCCL",
       true,
       {"nccl_graph_register"},
       [](const Cell&, TargetDevice device) { return device == TargetDevice::reference; }},
      {"the reference device has no stream-ordered pool",
       true,
       {"stream_ordered_segments"},
       [](const Cell&, TargetDevice device) { return device == TargetDevice::reference; }},
  };
  return table;
}

/// The fields that deprecated spellings of the implementation set together.
constexpr std::array<std::string_view, 5> spelling_fields{
    "cuda_graph_impl", "cuda_graph_scope", "enable_cuda_graph", "external_cuda_graph",
    "inference_cuda_graph_scope"};

bool spelt_anew(const Cell& cell, const Cell& normalised) {
  const TrainingConfig& before = cell.config;
  return before.cuda_graph_impl != normalised.config.cuda_graph_impl || before.enable_cuda_graph ||
         before.external_cuda_graph;
}

void forget_experts(TrainingConfig& config) {
  const TrainingConfig plain;
  config.moe_layer_freq = plain.moe_layer_freq;
  config.moe_expert_capacity_factor = plain.moe_expert_capacity_factor;
  config.moe_pad_expert_input_to_capacity = plain.moe_pad_expert_input_to_capacity;
  config.moe_token_dispatcher_type = plain.moe_token_dispatcher_type;
  config.moe_flex_dispatcher_backend = plain.moe_flex_dispatcher_backend;
  config.moe_input_jitter_eps = plain.moe_input_jitter_eps;
  config.moe_shared_expert_intermediate_size = plain.moe_shared_expert_intermediate_size;
  config.moe_shared_expert_overlap = plain.moe_shared_expert_overlap;
  config.moe_grouped_gemm = plain.moe_grouped_gemm;
}

void forget_unread_recompute(TrainingConfig& config) {
  if (config.recompute_granularity == RecomputeGranularity::full) {
    config.recompute_modules.reset();
    return;
  }
  config.recompute_method = RecomputeMethod::none;
  config.recompute_num_layers.reset();
  if (config.recompute_granularity == RecomputeGranularity::selective) {
    RecomputeModules modules =
        config.recompute_modules.value_or(RecomputeModules{RecomputeModule::core_attn});
    modules = RecomputeModules::from_bits(modules.bits() & ~absent_modules(config).bits());
    config.recompute_modules = modules;
    if (!modules.empty()) return;
  }
  config.recompute_granularity = RecomputeGranularity::none;
  config.recompute_modules.reset();
}

/// A scope keeps the modules that the model has; one that names none of them stays as it is.
void forget_absent_scopes(TrainingConfig& config) {
  const CudaGraphScope absent = CudaGraphScope::from_bits(
      CudaGraphScope{CudaGraphModule::attn, CudaGraphModule::mlp, CudaGraphModule::mamba}.bits() &
      ~modules_of_model(config).bits());
  const auto kept = CudaGraphScope::from_bits(config.cuda_graph_scope.bits() & ~absent.bits());
  if (!kept.empty()) config.cuda_graph_scope = kept;
}

void forget_unread_fp8(TrainingConfig& config) {
  const TrainingConfig plain;
  const bool quantised = config.fp8 != Fp8Format::none;
  if (quantised && config.fp8_recipe == Fp8Recipe::delayed) return;
  config.fp8_margin = plain.fp8_margin;
  config.fp8_amax_history_len = plain.fp8_amax_history_len;
  config.fp8_amax_compute_algo = plain.fp8_amax_compute_algo;
  config.tp_only_amax_red = plain.tp_only_amax_red;
  if (!quantised) config.fp8_recipe = plain.fp8_recipe;
}

void forget_graphs(Cell& cell) {
  const TrainingConfig plain;
  cell.config.cuda_graph_scope = {};
  cell.config.cuda_graph_warmup_steps = plain.cuda_graph_warmup_steps;
  cell.config.cuda_graph_use_single_mempool = plain.cuda_graph_use_single_mempool;
  cell.config.inference_cuda_graph_scope.reset();
  cell.shape.capture_form = CaptureForm::configured;
  cell.platform.graph_pool = GraphPool::shared;
  cell.platform.nccl_graph_register.reset();
}

}  // namespace

std::span<const Collapse> collapse_table() {
  return rows();
}

void make_canonical(Cell& cell, TargetDevice device) {
  if (graphs_off(cell)) forget_graphs(cell);
  if (!has_experts(cell.config)) forget_experts(cell.config);
  forget_unread_recompute(cell.config);
  if (chunks_a_stage(cell) == 1) {
    cell.config.virtual_pipeline_model_parallel_size.reset();
    cell.config.microbatch_group_size_per_vp_stage.reset();
  }
  forget_unread_fp8(cell.config);
  if (cell.config.data_parallel_size == 1) {
    cell.shape.bucket_size = WorkloadShape{}.bucket_size;
    cell.config.overlap_grad_reduce = TrainingConfig{}.overlap_grad_reduce;
  }
  if (cell.shape.capture_form == CaptureForm::whole_step) cell.config.optimizer_cuda_graph = false;
  if (!captures_layers(cell)) cell.shape.graphed_layers = GraphedLayers::all;
  if (!cell.config.is_hybrid_model) cell.config.hybrid_layer_pattern = {};
  forget_absent_scopes(cell.config);
  if (cell.shape.eval_interval == 0) cell.shape.eval_iters = WorkloadShape{}.eval_iters;
  if (device == TargetDevice::reference) {
    cell.platform.nccl_graph_register.reset();
    cell.platform.stream_ordered_segments = false;
  }
}

bool same_run(const Cell& a, const Cell& b) {
  return a.platform == b.platform && a.shape == b.shape && a.model_kind == b.model_kind &&
         a.config == b.config;
}

void normalise(const Cell& cell, Evaluation& evaluation, Cell& normalised) {
  evaluate(Ruleset::cgconform, cell.config, cell.platform, evaluation);
  normalised.index = cell.index;
  normalised.config = evaluation.normalised;
  normalised.shape = cell.shape;
  normalised.model_kind = cell.model_kind;
  normalised.platform = cell.platform;
}

EqualCells::EqualCells(const Expansion& expansion, TargetDevice device)
    : expansion_(expansion), device_(device), axis_collapses_(expansion.axes().size(), 0) {
  const auto touches = [](const Axis& axis, std::string_view field) {
    return std::find(axis.fields.begin(), axis.fields.end(), field) != axis.fields.end();
  };
  for (const std::size_t index : expansion.varying()) {
    const Axis& axis = expansion.axes()[index];
    for (std::size_t row = 0; row < rows().size(); ++row) {
      for (const std::string_view field : rows()[row].fields) {
        if (touches(axis, field)) axis_collapses_[index] |= 1U << row;
      }
    }
    const bool spelling = std::any_of(spelling_fields.begin(), spelling_fields.end(),
                                      [&](std::string_view field) { return touches(axis, field); });
    if (spelling) spelling_axes_.push_back(index);
  }
}

std::uint32_t EqualCells::applying(const Cell& normalised) const {
  std::uint32_t collapses = 0;
  for (std::size_t row = 0; row < rows().size(); ++row) {
    if (rows()[row].applies(normalised, device_)) collapses |= 1U << row;
  }
  return collapses;
}

const EqualCells::ValueClasses& EqualCells::classes(std::uint32_t collapses,
                                                    std::span<const std::uint32_t> coordinates) {
  const auto [entry, inserted] = known_.try_emplace(collapses);
  if (inserted) {
    entry->second.resize(axis_collapses_.size());
    for (const std::size_t axis : expansion_.varying()) {
      if ((axis_collapses_[axis] & collapses) != 0) {
        entry->second[axis] = classes_of_axis(axis, coordinates);
      }
    }
  }
  return entry->second;
}

std::vector<std::vector<std::uint32_t>> EqualCells::classes_of_axis(
    std::size_t axis, std::span<const std::uint32_t> coordinates) {
  Coordinates at(coordinates.begin(), coordinates.end());
  const std::size_t count = expansion_.axes()[axis].values.size();
  std::vector<Cell> canonical(count);
  Evaluation evaluation;
  for (std::uint32_t value = 0; value < count; ++value) {
    at[axis] = value;
    Cell cell;
    expansion_.fill(at, cell);
    normalise(cell, evaluation, canonical[value]);
    make_canonical(canonical[value], device_);
  }
  std::vector<std::vector<std::uint32_t>> groups(count);
  for (std::uint32_t value = 0; value < count; ++value) {
    for (std::uint32_t other = 0; other < count; ++other) {
      if (same_run(canonical[value], canonical[other])) groups[value].push_back(other);
    }
  }
  return groups;
}

bool EqualCells::respell(const Cell& normalised, std::span<std::uint32_t> coordinates) const {
  for (const std::size_t axis : spelling_axes_) {
    const std::vector<AxisValue>& values = expansion_.axes()[axis].values;
    std::uint32_t value = 0;
    Cell cell;
    do {
      if (value == values.size()) return false;
      cell = normalised;
      values[value++].apply(cell);
    } while (!same_run(cell, normalised));
    coordinates[axis] = value - 1;
  }
  return true;
}

bool EqualCells::find_first(std::span<const std::uint32_t> coordinates, const Cell& cell,
                            const Cell& normalised, Coordinates& candidate,
                            const std::function<bool(std::span<const std::uint32_t>)>& accept) {
  Coordinates start(coordinates.begin(), coordinates.end());
  const bool respelt =
      spelling_axes_.size() > 1 && spelt_anew(cell, normalised) && respell(normalised, start);
  const ValueClasses& groups = classes(applying(normalised), start);
  candidate = start;
  std::vector<std::size_t> free;
  for (const std::size_t axis : expansion_.varying()) {
    if (groups[axis].empty() || groups[axis][start[axis]].size() < 2) continue;
    free.push_back(axis);
    candidate[axis] = groups[axis][start[axis]].front();
  }
  std::vector<std::size_t> positions(free.size(), 0);
  while (true) {
    const bool itself =
        std::equal(candidate.begin(), candidate.end(), coordinates.begin(), coordinates.end());
    if (itself && !respelt) return false;
    if (!itself && accept(candidate)) return true;
    std::size_t digit = free.size();
    while (digit > 0) {
      const std::vector<std::uint32_t>& members = groups[free[digit - 1]][start[free[digit - 1]]];
      std::size_t& position = positions[digit - 1];
      position = position + 1 == members.size() ? 0 : position + 1;
      candidate[free[digit - 1]] = members[position];
      if (position != 0) break;
      --digit;
    }
    if (digit == 0) return false;
  }
}

bool EqualCells::differ_by_device(std::span<const std::uint32_t> a,
                                  std::span<const std::uint32_t> b, const Cell& normalised) const {
  const std::uint32_t collapses = applying(normalised);
  for (const std::size_t axis : expansion_.varying()) {
    if (a[axis] == b[axis]) continue;
    bool by_device = false;
    bool otherwise = false;
    for (std::size_t row = 0; row < rows().size(); ++row) {
      if ((axis_collapses_[axis] & collapses & (1U << row)) == 0) continue;
      (rows()[row].device_bound ? by_device : otherwise) = true;
    }
    if (by_device && !otherwise) return true;
  }
  return false;
}

}  // namespace cgconform::matrix

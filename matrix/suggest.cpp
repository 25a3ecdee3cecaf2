#include "matrix/suggest.hpp"

#include <algorithm>
#include <queue>
#include <set>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "matrix/constraint_table.hpp"
#include "matrix/field_table.hpp"
#include "matrix/training_config_json.hpp"

namespace cgconform::matrix {

namespace {

constexpr std::size_t most_evaluations = 20'000;
constexpr int cost_of_a_change = 10;
/// Repairs that cost this much more than the best one are not worth showing.
constexpr int widest_cost_range = 60;

/// Values worth trying for a field, as JSON, and what each costs beyond being a change.
struct Trial {
  std::string_view field;
  std::string_view values;
  int cost;
};

constexpr int cost_of_graphs_off = 60;
constexpr int cost_of_scope_item = 2;
constexpr int cost_of_module = 4;

constexpr Trial trials[] = {
    {"use_te_rng_tracker", "[true]", 0},
    {"te_rng_tracker", "[true]", 0},
    {"check_for_nan_in_loss", "[false]", 0},
    {"check_for_nan_in_loss_and_grad", "[false]", 1},
    {"enable_cuda_graph", "[false]", 0},
    {"external_cuda_graph", "[false]", 0},
    {"cuda_graph_modules", "[null]", 1},
    {"inference_cuda_graph_scope", "[null]", 2},
    {"cuda_graph_impl", R"(["transformer_engine", "local", "full_iteration"])", 5},
    {"cuda_graph_impl", R"(["none"])", cost_of_graphs_off},
    {"cuda_graph_warmup_steps", "[3]", 0},
    {"recompute_method", R"(["uniform"])", 0},
    {"recompute_num_layers", "[null, 1]", 0},
    {"recompute_granularity", R"(["selective", null])", 6},
    {"recompute_modules", "[[]]", 5},
    {"attention_dropout", "[0.0]", 5},
    {"hidden_dropout", "[0.0]", 5},
    {"moe_input_jitter_eps", "[null]", 5},
    {"moe_grouped_gemm", "[true]", 3},
    {"moe_expert_capacity_factor", "[null, 1.0]", 6},
    {"moe_pad_expert_input_to_capacity", "[true, false]", 6},
    {"moe_router_padding_for_fp8", "[false]", 4},
    {"moe_router_padding_for_quantization", "[false]", 4},
    {"moe_token_dispatcher_type", R"(["alltoall", "flex", "allgather"])", 6},
    {"moe_flex_dispatcher_backend", R"(["hybridep"])", 6},
    {"moe_shared_expert_overlap", "[false]", 5},
    {"moe_paged_stash", "[false]", 5},
    {"moe_expert_rank_capacity_factor", "[null]", 5},
    {"cpu_offloading", "[false]", 5},
    {"cpu_offloading_num_layers", "[1]", 4},
    {"fine_grained_activation_offloading", "[false]", 6},
    {"fine_grained_offloading_max_inflight_offloads", "[0]", 1},
    {"delay_wgrad_compute", "[false]", 5},
    {"overlap_moe_expert_parallel_comm", "[true, false]", 5},
    {"gradient_accumulation_fusion", "[true]", 2},
    {"overlap_grad_reduce", "[false]", 6},
    {"add_bias_linear", "[false]", 8},
    {"add_qkv_bias", "[false]", 8},
    {"variable_seq_lengths", "[false]", 4},
    {"pad_to_max_length", "[true]", 1},
    {"pad_cu_seqlens", "[true]", 1},
    {"sequence_packing", R"(["none"])", 8},
    {"transformer_impl", R"(["transformer_engine"])", 7},
    {"fp8_recipe", R"(["tensorwise", "mxfp8"])", 6},
    {"bf16", "[true]", 5},
    {"cross_entropy_fusion_impl", R"(["native"])", 3},
    {"virtual_pipeline_model_parallel_size", "[null]", 9},
    {"microbatch_group_size_per_vp_stage", "[null]", 3},
    {"optimizer_cuda_graph", "[false]", 4},
    {"use_megatron_fsdp_v2", "[false]", 9},
    {"nccl_ub", "[false]", 5},
    {"hybrid_context_parallel", "[false]", 7},
    {"rl_persist_cuda_graphs", "[true, false]", 5},
    {"rl_training_cuda_graphs", "[false]", 5},
    {"inference_batch_times_seqlen_threshold", "[-1]", 4},
    {"inference_dynamic_batching_num_cuda_graphs", "[-1]", 2},
};

/// Trials with their JSON parsed once.
struct ParsedTrial {
  FieldIndex field;
  nlohmann::json values;
  int cost;
};

const std::vector<ParsedTrial>& parsed_trials() {
  static const std::vector<ParsedTrial> parsed = [] {
    std::vector<ParsedTrial> all_trials;
    for (const Trial& trial : trials) {
      all_trials.push_back(
          {require_field(trial.field), nlohmann::json::parse(trial.values), trial.cost});
    }
    return all_trials;
  }();
  return parsed;
}

/// One point of the search: a changed configuration, and which names were changed.
struct State {
  TrainingConfig config;
  PlatformSettings platform;
  std::set<std::string> changed;
  int cost = 0;
};

struct Costlier {
  bool operator()(const State& a, const State& b) const { return a.cost > b.cost; }
};

class RepairSearch {
 public:
  RepairSearch(Ruleset ruleset, Layers layers, const TrainingConfig& config,
               const PlatformSettings& platform)
      : ruleset_(ruleset), layers_(layers), start_{config, platform, {}, 0} {}

  std::vector<Repair> run(std::size_t limit) {
    std::vector<Repair> repairs;
    std::vector<std::set<std::string>> found;
    Evaluation evaluation;
    open_.push(start_);
    for (std::size_t i = 0; i < most_evaluations && !open_.empty(); ++i) {
      const State state = open_.top();
      open_.pop();
      if (!repairs.empty() && state.cost > repairs.front().cost + widest_cost_range) break;
      if (!is_minimal(state, found)) continue;
      evaluate(ruleset_, layers_, state.config, state.platform, evaluation);
      if (!evaluation.legal()) {
        expand(state, evaluation);
        continue;
      }
      if (state.changed.empty()) return {};
      found.push_back(state.changed);
      repairs.push_back(repair_of(state));
      if (repairs.size() == limit) break;
    }
    return repairs;
  }

 private:
  /// A repair that contains a smaller one is of no use.
  static bool is_minimal(const State& state, const std::vector<std::set<std::string>>& found) {
    return std::none_of(found.begin(), found.end(), [&](const std::set<std::string>& smaller) {
      return std::includes(state.changed.begin(), state.changed.end(), smaller.begin(),
                           smaller.end());
    });
  }

  void expand(const State& state, const Evaluation& evaluation) {
    std::set<FieldIndex> fields;
    for (RuleIndex index : evaluation.violations) {
      const Rule& rule = rule_at(index);
      for (std::string_view name : rule.fields) {
        if (!name.empty()) fields.insert(require_field(name));
      }
      if (rule.library != Library::none) try_version(state, rule);
      if (rule.subject == Subject::allocator) try_registration_off(state);
    }
    for (FieldIndex field : fields) try_field(state, field);
  }

  void try_field(const State& state, FieldIndex field) {
    const std::string name(field_at(field).name);
    if (state.changed.contains(name)) return;
    for (const ParsedTrial& trial : parsed_trials()) {
      if (trial.field != field) continue;
      for (const nlohmann::json& value : trial.values) {
        TrainingConfig config = state.config;
        set_field(config, field, value);
        if (name == "recompute_granularity") complete_recompute(config);
        push(state, config, name, trial.cost);
      }
    }
    if (name == "cuda_graph_scope") try_scopes(state, name);
    if (name == "recompute_modules" && state.config.recompute_modules) {
      for (std::uint32_t bits = state.config.recompute_modules->bits(); bits != 0;
           bits &= bits - 1) {
        TrainingConfig config = state.config;
        config.recompute_modules =
            RecomputeModules::from_bits(config.recompute_modules->bits() & ~(bits & -bits));
        push(state, config, name, cost_of_module);
      }
    }
    if (name == "offload_modules") {
      TrainingConfig config = state.config;
      config.offload_modules =
          config.offload_modules & OffloadModules{OffloadModule::expert_fc1, OffloadModule::moe_act,
                                                  OffloadModule::fused_group_mlp};
      push(state, config, name, cost_of_module);
    }
  }

  /// Method and number of layers belong to full recompute: they go with it, and come with it.
  static void complete_recompute(TrainingConfig& config) {
    if (config.recompute_granularity != RecomputeGranularity::full) {
      config.recompute_method = RecomputeMethod::none;
      config.recompute_num_layers.reset();
      return;
    }
    if (config.recompute_method == RecomputeMethod::none) {
      config.recompute_method = RecomputeMethod::uniform;
    }
    if (!config.recompute_num_layers) config.recompute_num_layers = 1;
  }

  /// Every scope, dearer the more items differ.
  void try_scopes(const State& state, const std::string& name) {
    constexpr std::uint32_t layer_scopes = 1U << 6;
    const CudaGraphScope iteration{CudaGraphModule::full_iteration};
    for (std::uint32_t bits = 0; bits <= layer_scopes; ++bits) {
      TrainingConfig config = state.config;
      const CudaGraphScope current = config.cuda_graph_modules.value_or(config.cuda_graph_scope);
      config.cuda_graph_modules.reset();
      config.cuda_graph_scope = bits == layer_scopes ? iteration : CudaGraphScope::from_bits(bits);
      const std::uint32_t differing = current.bits() ^ config.cuda_graph_scope.bits();
      // An empty scope captures whole layers: more than any list of modules.
      const int widened = config.cuda_graph_scope.empty() ? 5 : 0;
      push(state, config, name, cost_of_scope_item * std::popcount(differing) + widened);
    }
  }

  void try_version(const State& state, const Rule& rule) {
    const bool torch = rule.library == Library::torch;
    const std::string name = torch ? "torch" : "transformer_engine";
    State next = state;
    std::optional<Version>& version =
        torch ? next.platform.torch : next.platform.transformer_engine;
    if (version && *version >= rule.at_least) return;
    version = rule.at_least;
    if (!next.changed.contains(name)) next.cost += cost_of_a_change;
    next.changed.insert(name);
    enqueue(std::move(next));
  }

  void try_registration_off(const State& state) {
    if (state.changed.contains("NCCL_GRAPH_REGISTER")) return;
    State next = state;
    next.platform.nccl_graph_register = false;
    next.platform.nccl_graph_register_misspelt = false;
    next.changed.insert("NCCL_GRAPH_REGISTER");
    next.cost += cost_of_a_change;
    enqueue(std::move(next));
  }

  void push(const State& state, const TrainingConfig& config, const std::string& name, int cost) {
    if (config == state.config) return;
    State next{config, state.platform, state.changed, state.cost + cost_of_a_change + cost};
    next.changed.insert(name);
    enqueue(std::move(next));
  }

  void enqueue(State next) {
    std::string key;
    for (const std::string& name : next.changed) {
      key += name;
      if (const std::optional<FieldIndex> field = find_field(name)) {
        FieldBytes bytes{};
        field_at(*field).save(next.config, bytes);
        key.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      }
    }
    if (seen_.insert(key).second) open_.push(std::move(next));
  }

  Repair repair_of(const State& state) const {
    Repair repair;
    repair.cost = state.cost;
    for (const Field& field : field_table()) {
      if (field.equal(state.config, start_.config)) continue;
      repair.changes.push_back({std::string(field.name), field.write(start_.config).dump(),
                                field.write(state.config).dump()});
    }
    if (state.changed.contains("NCCL_GRAPH_REGISTER")) {
      const bool unset = !start_.platform.nccl_graph_register.has_value();
      repair.changes.push_back({"NCCL_GRAPH_REGISTER", unset ? "null" : "\"1\"", "\"0\""});
    }
    add_version(repair, "transformer_engine", start_.platform.transformer_engine,
                state.platform.transformer_engine);
    add_version(repair, "torch", start_.platform.torch, state.platform.torch);
    return repair;
  }

  static void add_version(Repair& repair, std::string_view name, const std::optional<Version>& from,
                          const std::optional<Version>& to) {
    if (from == to) return;
    const auto text = [](const std::optional<Version>& version) {
      return version ? fmt::format("\"{}.{}.{}\"", version->major_number, version->minor_number,
                                   version->patch_number)
                     : std::string("null");
    };
    repair.changes.push_back({std::string(name), text(from), text(to)});
  }

  Ruleset ruleset_;
  Layers layers_;
  State start_;
  std::priority_queue<State, std::vector<State>, Costlier> open_;
  std::set<std::string> seen_;
};

}  // namespace

std::vector<Repair> suggest_repairs(Ruleset ruleset, Layers layers, const TrainingConfig& config,
                                    const PlatformSettings& platform, std::size_t limit) {
  return RepairSearch(ruleset, layers, config, platform).run(limit);
}

std::vector<ScopeRung> scope_ladder(Ruleset ruleset, Layers layers, const TrainingConfig& config,
                                    const PlatformSettings& platform) {
  using M = CudaGraphModule;
  const bool moe_model = config.num_moe_experts.value_or(0) > 1;
  const bool drop_and_pad =
      config.moe_expert_capacity_factor.has_value() && config.moe_pad_expert_input_to_capacity;
  const bool dense_layers = !moe_model || config.moe_layer_freq.has_dense_layer();

  CudaGraphScope scope{M::attn};
  std::vector<CudaGraphScope> scopes{scope};
  const auto widen = [&](CudaGraphScope more) {
    scope = scope | more;
    scopes.push_back(scope);
  };
  if (config.is_hybrid_model) widen({M::mamba});
  if (dense_layers) widen({M::mlp});
  if (moe_model && drop_and_pad) widen({M::moe});
  if (moe_model && !drop_and_pad) {
    widen({M::moe_router});
    widen({M::moe_preprocess});
  }

  TrainingConfig trial = config;
  trial.cuda_graph_modules.reset();
  trial.enable_cuda_graph = false;
  trial.external_cuda_graph = false;
  trial.inference_cuda_graph_scope.reset();
  trial.use_te_rng_tracker = true;
  trial.te_rng_tracker = true;
  std::vector<ScopeRung> rungs;
  Evaluation evaluation;
  const auto add = [&](CudaGraphImpl impl, CudaGraphScope tried) {
    trial.cuda_graph_impl = impl;
    trial.cuda_graph_scope = tried;
    evaluate(ruleset, layers, trial, platform, evaluation);
    rungs.push_back({impl, tried, evaluation.violations});
  };
  // Layers go with Transformer Engine unless the user captures layers with local.
  const bool keeps_local = config.cuda_graph_impl == CudaGraphImpl::local &&
                           !config.cuda_graph_scope.contains(M::full_iteration);
  for (CudaGraphScope tried : scopes) {
    add(keeps_local ? CudaGraphImpl::local : CudaGraphImpl::transformer_engine, tried);
  }
  add(CudaGraphImpl::local, {M::full_iteration});
  return rungs;
}

}  // namespace cgconform::matrix

#include "matrix/constraint_table.hpp"

#include <cctype>

namespace cgconform::matrix {

namespace {

std::vector<Rule> join_groups() {
  std::vector<Rule> rules;
  for (const auto group :
       {implementation_and_scope_rules, bridge_script_rules, random_number_rules, nan_check_rules,
        offloading_rules, moe_scope_rules, recompute_rules, allocator_rules, delayed_wgrad_rules,
        shape_rules, pipeline_rules, warmup_rules, parameter_gather_rules, low_precision_rules,
        inference_rules, hole_rules, ambiguity_rules}) {
    const std::span<const Rule> rows = group();
    rules.insert(rules.end(), rows.begin(), rows.end());
  }
  return rules;
}

constexpr std::array source_table{
    SourceFile{"TC", "core/transformer/transformer_config.py"},
    SourceFile{"CGC", "core/transformer/cuda_graph_config.py"},
    SourceFile{"MOD", "core/transformer/module.py"},
    SourceFile{"ML", "core/transformer/moe/moe_layer.py"},
    SourceFile{"MU", "core/transformer/moe/moe_utils.py"},
    SourceFile{"MA", "core/ssm/mamba_layer.py"},
    SourceFile{"FCG", "core/full_cuda_graph.py"},
    SourceFile{"OI", "core/optimizer/__init__.py"},
    SourceFile{"SCH", "core/pipeline_parallel/schedules.py"},
    SourceFile{"PGB", "core/distributed/param_and_grad_buffer.py"},
    SourceFile{"FSDP", "core/distributed/fsdp/mcore_fsdp_adapter.py"},
    SourceFile{"MCU", "core/models/common/utils.py"},
    SourceFile{"MPC", "core/model_parallel_config.py"},
    SourceFile{"AR", "training/arguments.py"},
    SourceFile{"IN", "training/initialize.py"},
    SourceFile{"MD", "training/models/dist_utils.py"},
    SourceFile{"TGC", "core/inference/text_generation_controllers/text_generation_controller.py"},
    SourceFile{"DE", "core/inference/engines/dynamic_engine.py"},
    SourceFile{"A2A", "core/transformer/moe/fused_a2a.py"},
    SourceFile{"CG", "core/transformer/cuda_graphs.py"},
    SourceFile{"EN", "core/transformer/enums.py"},
    SourceFile{"TL", "core/transformer/transformer_layer.py"},
    SourceFile{"TD", "core/transformer/moe/token_dispatcher.py"},
    SourceFile{"PS", "core/transformer/moe/paged_stash.py"},
    SourceFile{"ATT", "core/transformer/attention.py"},
    SourceFile{"OCG", "core/optimizer/optimizer_cuda_graph.py"},
    SourceFile{"RN", "core/tensor_parallel/random.py"},
    SourceFile{"DDP", "core/distributed/distributed_data_parallel.py"},
    SourceFile{"DDC", "core/distributed/distributed_data_parallel_config.py"},
    SourceFile{"LM", "core/models/common/language_module/language_module.py"},
    SourceFile{"PST", "core/parallel_state.py"},
    SourceFile{"TR", "training/training.py"},
    SourceFile{"MB", "training/models/gpt.py"},
    SourceFile{"RL", "rl/rl_utils.py"},
    SourceFile{"BDU", "core/inference/batch_dimensions_utils.py"},
    SourceFile{"UM", "core/inference/unified_memory.py"},
    SourceFile{"BCF", "bridge/training/config.py"},
    SourceFile{"BGP", "bridge/models/gpt_provider.py"},
    SourceFile{"BTR", "bridge/training/train.py"},
    SourceFile{"BGS", "bridge/training/gpt_step.py"},
    SourceFile{"BTC", "bridge/models/transformer_config.py"},
    SourceFile{"BVM", "bridge/models/qwen_vl/modelling_qwen3_vl/vision_model.py"},
    SourceFile{"BOV", "scripts/performance/utils/overrides.py"},
    SourceFile{"BXL", "scripts/translate_mlm_to_bridge.py"},
    SourceFile{"BUT", "bridge/utils/cuda_graph.py"},
    SourceFile{"BCO", "bridge/training/comm_overlap.py"},
    SourceFile{"BIN", "bridge/training/initialize.py"},
    SourceFile{"BSP", "bridge/models/gpt_full_te_layer_autocast_spec.py"},
    SourceFile{"BPE", "bridge/peft/utils.py"},
    SourceFile{"BAP", "scripts/performance/argument_parser.py"},
    SourceFile{"BEN", "bridge/recipes/utils/environment_utils.py"},
    SourceFile{"TGR", "transformer_engine/pytorch/graph.py"},
    SourceFile{"TQ", "transformer_engine/pytorch/quantization.py"},
    SourceFile{"TDP",
               "transformer_engine/pytorch/attention/dot_product_attention/"
               "dot_product_attention.py"},
    SourceFile{"TDI", "transformer_engine/pytorch/distributed.py"},
    SourceFile{"TLI", "transformer_engine/pytorch/module/linear.py"},
    SourceFile{"TRO", "transformer_engine/pytorch/router.py"},
    SourceFile{"TEP", "transformer_engine/pytorch/ep.py"},
};

bool is_upper_or_digit(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/// Replaces every `TAG:` by the path of the file it stands for.
std::string expand_tags(std::string_view source) {
  std::string expanded;
  std::size_t i = 0;
  while (i < source.size()) {
    std::size_t end = i;
    while (end < source.size() && is_upper_or_digit(source[end])) ++end;
    const std::string_view word = source.substr(i, end - i);
    const SourceFile* file = nullptr;
    if (end < source.size() && source[end] == ':') {
      for (const SourceFile& candidate : source_table) {
        if (candidate.tag == word) file = &candidate;
      }
    }
    if (file != nullptr) {
      expanded += file->path;
    } else if (end == i) {
      expanded += source[end++];
    } else {
      expanded += word;
    }
    i = end;
  }
  return expanded;
}

const std::vector<Rule>& rules() {
  static const std::vector<Rule> table = join_groups();
  return table;
}

}  // namespace

std::span<const Rule> constraint_table() {
  return rules();
}

const Rule& rule_at(RuleIndex index) {
  return rules()[static_cast<std::size_t>(index)];
}

std::string_view rule_id(RuleIndex rule) {
  return rule_at(rule).id;
}

std::vector<RuleIndex> find_rules(std::string_view id) {
  std::vector<RuleIndex> found;
  for (std::size_t i = 0; i < rules().size(); ++i) {
    if (rules()[i].id == id) found.push_back(static_cast<RuleIndex>(i));
  }
  return found;
}

std::string_view subject_name(Subject subject) {
  switch (subject) {
    case Subject::implementation_and_scope:
      return "Implementation and scope";
    case Subject::random_numbers:
      return "Random numbers";
    case Subject::nan_checks:
      return "NaN checks";
    case Subject::offloading:
      return "Offloading";
    case Subject::moe_scopes:
      return "Mixture of experts";
    case Subject::recompute:
      return "Recompute";
    case Subject::allocator:
      return "Allocator and NCCL registration";
    case Subject::delayed_wgrad:
      return "Delayed weight gradients and expert-parallel overlap";
    case Subject::shapes_and_packing:
      return "Shapes, packing and arguments";
    case Subject::pipeline_order:
      return "Pipeline and capture order";
    case Subject::warmup_and_capture:
      return "Warm-up and the moment of capture";
    case Subject::parameter_gather:
      return "Parameter gather, DDP and FSDP";
    case Subject::low_precision:
      return "fp8 and fp4";
    case Subject::inference_and_optimizer:
      return "Inference, reinforcement learning, optimizer and environment";
    case Subject::holes:
      return "Holes: accepted everywhere, wrong or failing later";
    case Subject::ambiguities:
      return "Ambiguities";
  }
  return {};
}

std::string_view action_name(Action action) {
  switch (action) {
    case Action::reject:
      return "reject";
    case Action::warn:
      return "warn";
    case Action::auto_fix:
      return "auto-fix";
    case Action::behaviour:
      return "behaviour";
  }
  return {};
}

const std::string& rule_source(RuleIndex rule) {
  static const std::vector<std::string> sources = [] {
    std::vector<std::string> expanded;
    for (const Rule& row : rules()) expanded.push_back(expand_tags(row.source));
    return expanded;
  }();
  return sources[static_cast<std::size_t>(rule)];
}

std::span<const SourceFile> source_files() {
  return source_table;
}

}  // namespace cgconform::matrix

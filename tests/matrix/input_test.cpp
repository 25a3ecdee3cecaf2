#include "matrix/input.hpp"

#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "matrix/error.hpp"

namespace cgconform::matrix {
namespace {

using ::testing::HasSubstr;
using I = CudaGraphImpl;
using M = CudaGraphModule;

std::vector<CheckInput> read_json(const std::string& text, const InputOptions& options = {}) {
  std::istringstream stream(text);
  std::vector<CheckInput> inputs;
  read_json_inputs(stream, "f.json", options,
                   [&](const CheckInput& input) { inputs.push_back(input); });
  return inputs;
}

std::vector<CheckInput> read_yaml(const std::string& text, const InputOptions& options = {}) {
  std::istringstream stream(text);
  std::vector<CheckInput> inputs;
  read_yaml_inputs(stream, "f.yaml", options,
                   [&](const CheckInput& input) { inputs.push_back(input); });
  return inputs;
}

CheckInput read_arguments(const std::vector<std::string>& arguments) {
  return read_argument_input(arguments, {});
}

template <typename Read>
std::string error_of(const Read& read) {
  try {
    read();
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

bool is_given(const CheckInput& input, std::string_view field) {
  return input.given.test(static_cast<std::size_t>(require_field(field)));
}

TEST(JsonInput, ReadsAHybridPatternUnderBothOfItsNames) {
  for (const std::string name : {"hybrid_layer_pattern", "hybrid_override_pattern"}) {
    const auto inputs = read_json(R"({")" + name + R"(": "M*-E"})");
    const HybridPattern& pattern = inputs.front().config.hybrid_layer_pattern;
    ASSERT_EQ(pattern.length, 4);
    EXPECT_EQ(pattern.at(0), HybridLayer::mamba);
    EXPECT_EQ(pattern.at(1), HybridLayer::attention);
    EXPECT_EQ(pattern.at(2), HybridLayer::mlp);
    EXPECT_EQ(pattern.at(3), HybridLayer::moe);
    EXPECT_EQ(pattern.at(5), HybridLayer::attention) << "a short pattern begins anew";
  }
  const std::string error = error_of([] { read_json(R"({"hybrid_layer_pattern": "MX"})"); });
  EXPECT_THAT(error, HasSubstr("hybrid_layer_pattern"));
  EXPECT_THAT(error, HasSubstr("M (Mamba)"));
}

TEST(JsonInput, ReadsObjectArrayAndLinesAlike) {
  const std::string one = R"({"cuda_graph_impl": "local", "cuda_graph_scope": ["attn", "mlp"]})";
  const std::string texts[] = {one, "[" + one + "," + one + "]", one + "\n" + one + "\n" + one};
  std::size_t expected = 1;
  for (const std::string& text : texts) {
    const std::vector<CheckInput> inputs = read_json(text);
    ASSERT_EQ(inputs.size(), expected++);
    EXPECT_EQ(inputs.back().config.cuda_graph_impl, I::local);
    EXPECT_EQ(inputs.back().config.cuda_graph_scope, (CudaGraphScope{M::attn, M::mlp}));
  }
}

TEST(JsonInput, OneConfigurationDoesNotLeakIntoTheNext) {
  const std::vector<CheckInput> inputs =
      read_json(R"({"environment": {"NCCL_GRAPH_REGISTER": "0"}, "config": {"num_layers": 7}} {})");
  ASSERT_EQ(inputs.size(), 2U);
  EXPECT_EQ(inputs[0].config.num_layers, 7);
  EXPECT_EQ(inputs[0].platform.nccl_graph_register, false);
  EXPECT_EQ(inputs[1].config.num_layers, 4);
  EXPECT_FALSE(inputs[1].platform.nccl_graph_register.has_value());
  EXPECT_TRUE(inputs[1].given.none());
}

TEST(JsonInput, ReadsTheEnvironment) {
  const CheckInput input = read_json(R"({"config": {}, "environment": {
      "PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:64,expandable_segments:True",
      "NCCL_GRAPH_REGISTER": 0, "compute_capability": "sm_100", "transformer_engine": "2.12.0",
      "torch": "2.9.0a0+git", "nccl": "2.27", "HOME": "/root"}})")
                               .at(0);
  EXPECT_TRUE(input.platform.expandable_segments);
  EXPECT_TRUE(input.platform.expandable_segments_as_tested);
  EXPECT_EQ(input.platform.nccl_graph_register, false);
  EXPECT_FALSE(input.platform.nccl_graph_register_misspelt);
  EXPECT_EQ(input.platform.compute_capability, 100);
  EXPECT_EQ(input.platform.transformer_engine, (Version{2, 12, 0}));
  EXPECT_EQ(input.platform.torch, (Version{2, 9, 0}));
  EXPECT_EQ(input.platform.nccl, (Version{2, 27, 0}));
}

TEST(JsonInput, TellsTheEffectiveAllocatorFromTheTestedOne) {
  const auto settings = [](const std::string& environment) {
    return read_json(R"({"config": {}, "environment": )" + environment + "}").at(0).platform;
  };
  PlatformSettings platform = settings(R"({"PYTORCH_ALLOC_CONF": "expandable_segments:True"})");
  EXPECT_TRUE(platform.expandable_segments);
  EXPECT_FALSE(platform.expandable_segments_as_tested);
  platform = settings(R"({"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments: true"})");
  EXPECT_TRUE(platform.expandable_segments);
  EXPECT_FALSE(platform.expandable_segments_as_tested);
  platform = settings(R"({"PYTORCH_ALLOC_CONF": "expandable_segments:False",
                          "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"})");
  EXPECT_FALSE(platform.expandable_segments);
  EXPECT_TRUE(platform.expandable_segments_as_tested);
  platform = settings(R"({"NCCL_GRAPH_REGISTER": "00"})");
  EXPECT_EQ(platform.nccl_graph_register, false);
  EXPECT_TRUE(platform.nccl_graph_register_misspelt);
}

TEST(JsonInput, ReadsContainerSectionsAndIgnoresWhatHasNothingToDoWithGraphs) {
  const CheckInput input = read_json(R"({
    "_target_": "megatron.bridge.training.config.ConfigContainer",
    "logger": {"log_interval": 1, "cuda": {"deep": [1, {"x": 2}]}},
    "model": {"cuda_graph_impl": "local", "cuda_graph_scope": ["full_iteration"],
              "hidden_size": 128, "rope": {"base": 10000}, "made_up": 1, "te_rng_tracker": true},
    "rng": {"te_rng_tracker": true, "seed": 1234},
    "rerun_state_machine": {"check_for_nan_in_loss": false},
    "ddp": {"check_for_nan_in_grad": false, "overlap_grad_reduce": null},
    "comm_overlap": {"delay_wgrad_compute": true},
    "dataset": {"packed_sequence_specs": {"packed_sequence_size": 4096, "pad_cu_seqlens": true},
                "dataset_kwargs": {"pad_to_max_length": true}}})")
                               .at(0);
  EXPECT_EQ(input.config.origin, ConfigOrigin::container);
  EXPECT_EQ(input.config.cuda_graph_impl, I::local);
  EXPECT_EQ(input.config.cuda_graph_scope, CudaGraphScope{M::full_iteration});
  EXPECT_EQ(input.config.hidden_size, 128);
  EXPECT_TRUE(input.config.te_rng_tracker);
  EXPECT_FALSE(input.config.use_te_rng_tracker);
  EXPECT_FALSE(input.config.check_for_nan_in_loss);
  EXPECT_FALSE(input.config.check_for_nan_in_grad);
  EXPECT_TRUE(input.config.delay_wgrad_compute);
  EXPECT_EQ(input.config.sequence_packing, SequencePacking::offline);
  EXPECT_TRUE(input.config.pad_cu_seqlens);
  EXPECT_TRUE(input.config.pad_to_max_length);
  EXPECT_FALSE(is_given(input, "overlap_grad_reduce"));
}

TEST(JsonInput, WhatCommOverlapSetsOverridesTheModel) {
  for (const char* text : {R"({"model": {"delay_wgrad_compute": false},
                               "comm_overlap": {"delay_wgrad_compute": true}})",
                           R"({"comm_overlap": {"delay_wgrad_compute": true},
                               "model": {"delay_wgrad_compute": false}})"}) {
    EXPECT_TRUE(read_json(text).at(0).config.delay_wgrad_compute) << text;
  }
}

TEST(JsonInput, NamesThePlaceAndTheNearestField) {
  EXPECT_EQ(error_of([] { read_json("{\"num_layers\": 4,\n  \"cuda_graph_imp\": \"local\"}"); }),
            "f.json:2:3: 'cuda_graph_imp' is not a known field; did you mean 'cuda_graph_impl'?");
  EXPECT_THAT(
      error_of([] { read_json("{}\n{\"cuda_graph_impl\": \"lokal\"}"); }),
      ::testing::AllOf(HasSubstr("f.json:2:2: cuda_graph_impl: 'lokal'"), HasSubstr("'local'")));
  EXPECT_THAT(error_of([] { read_json("{\"model\": {\"cuda_graph_scop\": []}}"); }),
              HasSubstr("did you mean 'cuda_graph_scope'"));
}

TEST(JsonInput, AllowUnknownIgnoresUnknownFieldsOnly) {
  InputOptions options;
  options.allow_unknown = true;
  EXPECT_EQ(
      read_json(R"({"made_up": {"a": [1]}, "num_layers": 3})", options).at(0).config.num_layers, 3);
  EXPECT_THAT(error_of([&] { read_json(R"({"num_layers": "three"})", options); }),
              HasSubstr("an integer is expected"));
}

TEST(JsonInput, RefusesWhatItCannotUse) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"", "the input is empty"},
      {"  \n ", "the input is empty"},
      {"{", "not JSON"},
      {"{\"num_layers\": 4", "not JSON"},
      {"3", "must be an object"},
      {"[3]", "must be an object"},
      {"[[{}]]", "must be an object, not a list"},
      {R"({"num_layers": 4, "num_layers": 5})", "num_layers is given twice"},
      {R"({"num_layers": 99999999999})", "32 bits"},
      {R"({"num_layers": 1e999})", "number overflow"},
      {R"({"num_layers": 1.5})", "an integer is expected"},
      {R"({"attention_dropout": 1e300})", "a finite number is expected"},
      {R"({"bf16": 1})", "true or false is expected"},
      {R"({"cuda_graph_scope": [["attn"]]})", "must not hold lists"},
      {R"({"cuda_graph_scope": [{}]})", "must not hold objects"},
      {R"({"cuda_graph_scope": {"a": 1}})", "an object is given"},
      {R"({"moe_layer_freq": [0, 2]})", "0 (a dense layer) or 1 (a MoE layer)"},
      {R"({"moe_layer_freq": []})", "one entry a layer"},
      {R"({"config": {}, "environment": {"compute_capability": "fast"}})", "compute capability"},
      {R"({"config": {}, "environment": {"tourch": "2.9"}})", "'torch'"},
      {R"({"config": {}, "environment": {"torch": "new"}})", "no version"},
      {"\"\\ud800\"", "not JSON"},
  };
  for (const auto& [text, message] : cases) {
    EXPECT_THAT(error_of([&, &input = text] { read_json(input); }), HasSubstr(message)) << text;
  }
}

TEST(JsonInput, RefusesDeepNesting) {
  const std::string deep = R"({"logger":)" + std::string(100'000, '[');
  EXPECT_THAT(error_of([&] { read_json(deep); }), HasSubstr("nested deeper than 32 levels"));
}

TEST(JsonInput, RefusesAConfigurationOfTooManyBytes) {
  const std::string large =
      R"({"logger": {"a": ")" + std::string(std::size_t{17} * 1024 * 1024, 'x') + R"("}})";
  EXPECT_THAT(error_of([&] { read_json(large); }), HasSubstr("a configuration of more than"));
}

TEST(JsonInput, DerivesMicroBatchesFromBatchSizes) {
  EXPECT_EQ(read_json("{}").at(0).config.num_microbatches, 0);
  EXPECT_EQ(
      read_json(R"({"global_batch_size": 64, "micro_batch_size": 2, "data_parallel_size": 4})")
          .at(0)
          .config.num_microbatches,
      8);
}

TEST(YamlInput, ReadsAContainer) {
  const CheckInput input = read_yaml(
                               "model:\n"
                               "  _target_: megatron.bridge.models.GPTModelProvider\n"
                               "  cuda_graph_impl: transformer_engine\n"
                               "  cuda_graph_scope:\n    - attn\n    - moe_router\n"
                               "  num_moe_experts: 8\n"
                               "  attention_dropout: 0.0\n"
                               "  recompute_granularity: null\n"
                               "  use_te_rng_tracker: true\n"
                               "rng: {te_rng_tracker: true}\n")
                               .at(0);
  EXPECT_EQ(input.config.cuda_graph_impl, I::transformer_engine);
  EXPECT_EQ(input.config.cuda_graph_scope, (CudaGraphScope{M::attn, M::moe_router}));
  EXPECT_EQ(input.config.num_moe_experts, 8);
  EXPECT_EQ(input.config.attention_dropout, 0.0F);
  EXPECT_TRUE(input.config.use_te_rng_tracker);
  EXPECT_TRUE(input.config.te_rng_tracker);
}

TEST(YamlInput, NamesThePlace) {
  EXPECT_EQ(error_of([] { read_yaml("num_layers: 4\ncuda_graph_imp: local\n"); }),
            "f.yaml:2:1: 'cuda_graph_imp' is not a known field; did you mean 'cuda_graph_impl'?");
  EXPECT_THAT(error_of([] { read_yaml("model: [a\n"); }), HasSubstr("not YAML"));
  EXPECT_THAT(error_of([] { read_yaml("cuda_graph_impl: &a local\nnum_layers: *a\n"); }),
              HasSubstr("an alias is not supported"));
  EXPECT_THAT(error_of([] { read_yaml(""); }), HasSubstr("holds no configuration"));
  EXPECT_THAT(error_of([] { read_yaml("just words\n"); }), HasSubstr("must be an object"));
}

TEST(YamlInput, RefusesAliasesAndMergesThatMaySetFields) {
  const std::string base = "base: &b {cuda_graph_impl: local}\n";
  EXPECT_EQ(error_of([&] { read_yaml(base + "model: *b\n"); }),
            "f.yaml:2:8: model: an alias is not supported; write the value out");
  EXPECT_EQ(error_of([&] { read_yaml(base + "model:\n  <<: *b\n"); }),
            "f.yaml:3:3: merging mappings with << is not supported; write the values out");
  EXPECT_THAT(error_of([&] { read_yaml(base + "model:\n  <<: [*b]\n"); }),
              HasSubstr("merging mappings with << is not supported"));
  EXPECT_THAT(error_of([&] { read_yaml(base + "model: {}\nenvironment: *b\n"); }),
              HasSubstr("environment: an alias is not supported"));
}

TEST(YamlInput, IgnoresAliasesOfOtherParts) {
  EXPECT_EQ(read_yaml("base: &b {x: 1}\nmodel: {cuda_graph_impl: local}\nlogger: *b\n")
                .at(0)
                .config.cuda_graph_impl,
            I::local);
}

TEST(YamlInput, RefusesDeepNesting) {
  EXPECT_THAT(
      error_of([] { read_yaml("logger: " + std::string(500, '[') + std::string(500, ']')); }),
      HasSubstr("nested deeper than 32 levels"));
}

TEST(ArgumentInput, ReadsTheSpellingsOfTheSeedDocuments) {
  const CheckInput input = read_arguments(
      {"pretrain_gpt.py", "--enable-cuda-graph", "--cuda-graph-scope", "full_iteration",
       "--cuda-graph-warmup-steps", "1", "--te-rng-tracker", "--no-check-for-nan-in-loss-and-grad",
       "--lr", "1.0e-4", "--tokenizer-type", "NullTokenizer"});
  EXPECT_EQ(input.config.origin, ConfigOrigin::arguments);
  EXPECT_TRUE(input.config.enable_cuda_graph);
  EXPECT_EQ(input.config.cuda_graph_scope, CudaGraphScope{M::full_iteration});
  EXPECT_EQ(input.config.cuda_graph_warmup_steps, 1);
  EXPECT_TRUE(input.config.te_rng_tracker);
  EXPECT_TRUE(input.config.use_te_rng_tracker);
  EXPECT_FALSE(input.config.check_for_nan_in_loss_and_grad);
  EXPECT_FALSE(input.config.check_for_nan_in_loss);
  EXPECT_FALSE(input.config.check_for_nan_in_grad);
}

TEST(ArgumentInput, ReadsMegatronsOwnNames) {
  const CheckInput input = read_arguments(
      {"--num-experts", "8", "--moe-layer-freq", "([0]*1+[1]*3)*2", "--disable-bias-linear",
       "--recompute-activations", "--num-layers", "16", "--pipeline-model-parallel-size", "2",
       "--num-layers-per-virtual-pipeline-stage", "2", "--cuda-graph-scope", "attn", "moe_router",
       "--no-gradient-accumulation-fusion", "--cuda-graph-num-warmup-steps=5",
       "--attention-dropout", "0"});
  EXPECT_EQ(input.config.num_moe_experts, 8);
  EXPECT_EQ(input.config.moe_layer_freq.pattern_length, 8);
  EXPECT_EQ(input.config.moe_layer_freq.pattern, 0b11101110U);
  EXPECT_FALSE(input.config.add_bias_linear);
  EXPECT_EQ(input.config.recompute_granularity, RecomputeGranularity::selective);
  EXPECT_EQ(input.config.virtual_pipeline_model_parallel_size, 4);
  EXPECT_EQ(input.config.cuda_graph_scope, (CudaGraphScope{M::attn, M::moe_router}));
  EXPECT_FALSE(input.config.gradient_accumulation_fusion);
  EXPECT_EQ(input.config.cuda_graph_warmup_steps, 5);
  EXPECT_EQ(input.config.attention_dropout, 0.0F);
}

TEST(ArgumentInput, ReadsOverridesOfThePerformanceScripts) {
  const CheckInput input =
      read_arguments({"-m", "qwen", "-ng", "16", "-pp", "2", "--cuda_graph_impl", "local",
                      "--cuda_graph_scope", "attn,moe_router"});
  EXPECT_EQ(input.config.origin, ConfigOrigin::performance_overrides);
  EXPECT_EQ(input.config.cuda_graph_impl, I::local);
  EXPECT_EQ(input.config.cuda_graph_scope, (CudaGraphScope{M::attn, M::moe_router}));
  EXPECT_EQ(input.config.pipeline_model_parallel_size, 2);
}

TEST(ArgumentInput, NamesTheArgument) {
  EXPECT_THAT(error_of([] {
                read_arguments({"--bf16", "--cuda-graph-imp", "local"});
              }),
              HasSubstr("arguments:2: '--cuda-graph-imp' is not a known option; did you mean "
                        "'--cuda-graph-impl'"));
  EXPECT_THAT(error_of([] { read_arguments({"--cuda-graph-impl"}); }), HasSubstr("needs a value"));
  EXPECT_THAT(error_of([] {
                read_arguments({"--num-layers", "many"});
              }),
              HasSubstr("arguments:1: num_layers: 'many'"));
  EXPECT_THAT(error_of([] {
                read_arguments({"--moe-layer-freq", "([1]*9999)"});
              }),
              HasSubstr("moe_layer_freq"));
}

}  // namespace
}  // namespace cgconform::matrix

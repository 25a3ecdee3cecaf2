#include "matrix/rule_protection.hpp"

#include <algorithm>
#include <array>

namespace cgconform::matrix {
namespace {

constexpr std::string_view wording_rules[] = {"bridge-local-full-iteration-only",
                                              "bridge-perf-full-iter-alone",
                                              "bridge-perf-impl-values",
                                              "bridge-perf-scope-values",
                                              "bridge-perf-te-scopes",
                                              "bridge-translate-default",
                                              "full-iter-impl-to-scope",
                                              "full-iter-inference-migrates",
                                              "full-iter-inference-noop",
                                              "full-iter-inference-scope-impl",
                                              "full-iter-inference-scope-inference",
                                              "full-iter-no-modules",
                                              "full-iter-scope-impl",
                                              "full-iter-scope-inference",
                                              "full-iter-scope-migrates",
                                              "hybrid-cp-graph-untested",
                                              "hybrid-cp-no-graph",
                                              "hz-bridge-local-loophole",
                                              "hz-bridge-pack-contradiction",
                                              "hz-flux-dead-kwarg",
                                              "hz-local-mlp-attribute-error",
                                              "hz-local-scope-is-layer-type",
                                              "hz-none-plus-full-iteration",
                                              "hz-qwen-flag",
                                              "impl-enum",
                                              "infer-num-graphs",
                                              "inference-scope-matrix",
                                              "legacy-enable-to-local",
                                              "legacy-external-to-te",
                                              "legacy-flag-with-impl",
                                              "legacy-flags-exclusive",
                                              "moe-xor-router",
                                              "preprocess-needs-router",
                                              "recompute-full-needs-method",
                                              "recompute-full-needs-num-layers",
                                              "recompute-granularity-enum",
                                              "recompute-modules-known",
                                              "recompute-selective-no-num-layers",
                                              "rl-graph-flags",
                                              "scope-full-alone",
                                              "scope-name-known",
                                              "scope-one-legacy-value",
                                              "scope-rename",
                                              "share-io-buffers-removed",
                                              "te-callable-count",
                                              "te-fp8-enabled-type",
                                              "te-order-forward-int",
                                              "te-order-length"};

constexpr std::string_view unbuilt_rules[] = {"allgather-no-variable-seq",
                                              "bwd-dw-transformer-only",
                                              "cpu-offload-layer-range",
                                              "cpu-offload-no-pp",
                                              "cpu-offload-no-recompute",
                                              "delay-wgrad-needs-ep-overlap",
                                              "delay-wgrad-transformer-impl",
                                              "ep-overlap-dispatcher",
                                              "ep-overlap-mtp",
                                              "ep-overlap-needs-ep",
                                              "ep-overlap-needs-vp",
                                              "ep-overlap-no-full-recompute",
                                              "ep-overlap-no-moe-recompute",
                                              "ep-overlap-no-shared-overlap",
                                              "ep-overlap-precision",
                                              "expert-ranks-divide-experts",
                                              "expert-ranks-divide-replicas",
                                              "fgao-no-cpu-offload",
                                              "flex-deepep-no-capacity-pad",
                                              "fsdp-ep-overlap",
                                              "fsdp-v2-no-graphs",
                                              "heads-divide-hidden-size",
                                              "infer-pp-microbatch",
                                              "infer-static-flash-decode",
                                              "inference-block-fp8",
                                              "mlp-scope-needs-dense-layer",
                                              "moe-scope-needs-moe-model",
                                              "pad-needs-capacity",
                                              "paged-stash-needs-capacity",
                                              "query-groups-divide-heads",
                                              "rank-capacity-backend",
                                              "recompute-gdn-needs-gdn",
                                              "recompute-mhc-needs-mhc",
                                              "recompute-mhc-not-mlp",
                                              "recompute-mla-needs-mla",
                                              "recompute-moe-act-grouped-gemm",
                                              "recompute-shared-experts-no-overlap",
                                              "router-padding-needs-low-precision",
                                              "router-padding-no-allgather",
                                              "shared-overlap-no-allgather",
                                              "shared-rows-need-tensor-parts",
                                              "stages-divide-layers",
                                              "te-pp1-single-chunk",
                                              "tensor-parts-divide-heads",
                                              "vp-final-group",
                                              "vp-group-range",
                                              "vp-needs-pp",
                                              "vp-needs-pp-without-overlap"};

constexpr std::string_view version_rules[] = {"delay-wgrad-fusion-te-2.7",
                                              "delay-wgrad-graph-te-2.12",
                                              "delay-wgrad-nofusion-te-2.7",
                                              "delay-wgrad-overlap-grad-te-2.7",
                                              "delay-wgrad-overlap-grad-te-2.8",
                                              "delay-wgrad-te-2.10",
                                              "ep-overlap-torch-2.6",
                                              "fgao-env",
                                              "fgao-in-graph-torch",
                                              "fgao-in-graph-versions",
                                              "freeze-gc",
                                              "local-fp4-te-2.7",
                                              "nccl-ub-expandable",
                                              "recompute-fp8-te-2.6",
                                              "rng-te-1.5",
                                              "rng-torch-api",
                                              "stale-capture-stream",
                                              "te-amax-group-1.14",
                                              "te-ce-full-iter-2.7",
                                              "te-chunk-layers-2.6",
                                              "te-fp8-per-layer-2.8",
                                              "te-kwargs-1.10",
                                              "te-reset-2.10"};

constexpr std::string_view bookkeeping_rules[] = {"enable-pre-hook-once",
                                                  "local-no-runner",
                                                  "local-only-ddp-hooks",
                                                  "local-record-after-create",
                                                  "local-router-attrs-stable",
                                                  "moe-partial-not-inference",
                                                  "router-graph-output-count",
                                                  "te-all-same-mode",
                                                  "te-capture-once",
                                                  "te-delete-needs-created",
                                                  "te-grad-count",
                                                  "te-kwargs-present",
                                                  "te-tensor-only",
                                                  "te-tensor-sample-args",
                                                  "te-unused-input",
                                                  "te-warmup0-hooks",
                                                  "te-wgrad-one-layer-chunks",
                                                  "te-wgrad-pairs"};

constexpr std::string_view reading_rules[] = {"amb-bridge-local-inference-loophole",
                                              "amb-expandable-segments-not-te",
                                              "amb-full-iter-dropless-moe",
                                              "amb-full-recompute-dropout",
                                              "amb-local-lowp-te-checkpoint",
                                              "amb-local-mlp-scope-attribute-error",
                                              "amb-local-scope-is-layer-type",
                                              "amb-none-plus-full-iteration",
                                              "amb-recompute-skipped-in-capture",
                                              "amb-rng-te-attention-tracker",
                                              "amb-seed-local-per-layer",
                                              "amb-seed-mixed-full-iteration",
                                              "amb-warmup-negative-never-captures"};

constexpr std::string_view statement_rules[] = {"bridge-env-defaults",
                                                "bridge-lora-regather",
                                                "bridge-none-clears-scope",
                                                "bridge-perf-autoset",
                                                "fgao-attn-norm-off",
                                                "fgao-mlp-norm-off",
                                                "fsdp-cg-mode",
                                                "full-iter-capture-call",
                                                "full-iter-mxfp8-copy",
                                                "graph-pool-record-stream",
                                                "gtp-min-warmup",
                                                "infer-layer-needs-empty-modules",
                                                "infer-none-skips",
                                                "layernorm-recompute-router-te",
                                                "local-capture-point",
                                                "local-fp8-skip-flag",
                                                "local-layer-type",
                                                "local-router-preprocess-pair",
                                                "mlm-cleanup",
                                                "mlm-variable-seq-off",
                                                "optimizer-capture-call",
                                                "paged-stash-rerun",
                                                "pre-hook-first-step-off",
                                                "pre-hook-toggle-predicate",
                                                "rl-forces-local",
                                                "rl-toggle-clears-recompute",
                                                "rng-cudagraphable-auto",
                                                "rng-inference-noop",
                                                "rng-te-tracker-autofix",
                                                "shared-experts-in-router-graph",
                                                "te-capture-step",
                                                "te-inner-warmup",
                                                "te-mask-none-to-zeros",
                                                "te-mode-fallback",
                                                "te-sample-layout"};

constexpr std::array rows{
    UnphysicalRules{Protection::wording, wording_rules},
    UnphysicalRules{Protection::unbuilt, unbuilt_rules},
    UnphysicalRules{Protection::version, version_rules},
    UnphysicalRules{Protection::bookkeeping, bookkeeping_rules},
    UnphysicalRules{Protection::reading, reading_rules},
    UnphysicalRules{Protection::statement, statement_rules},
};

}  // namespace

std::span<const UnphysicalRules> unphysical_rules() {
  return rows;
}

Protection protection_of(std::string_view rule) {
  for (const UnphysicalRules& row : rows) {
    if (std::find(row.rules.begin(), row.rules.end(), rule) != row.rules.end()) {
      return row.protection;
    }
  }
  return Protection::physical;
}

std::string_view protection_text(Protection protection) {
  switch (protection) {
    case Protection::physical:
      return "a failure of running work";
    case Protection::wording:
      return "it keeps names and combinations meaningful";
    case Protection::unbuilt:
      return "it names a model or combination that the frameworks do not have";
    case Protection::version:
      return "it asks for a version of a library";
    case Protection::bookkeeping:
      return "it keeps the records of a framework in order";
    case Protection::reading:
      return "it says how an ambiguity is read";
    case Protection::statement:
      return "it says what a framework does";
  }
  return {};
}

}  // namespace cgconform::matrix

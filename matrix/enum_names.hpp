#pragma once

#include <array>
#include <span>
#include <string_view>

#include "matrix/platform_settings.hpp"
#include "matrix/training_config.hpp"

namespace cgconform::matrix {

/// One spelling of an enumerator. The first spelling of a value is the one that is written; later
/// ones are accepted when reading.
template <typename E>
struct EnumName {
  E value;
  std::string_view name;
};
// Only newer compilers deduce the arguments of an aggregate.
template <typename E>
EnumName(E, const char*) -> EnumName<E>;

/// The spellings of `E`, specialised below for every enumeration that appears in a configuration.
template <typename E>
struct EnumNames;

template <>
struct EnumNames<CudaGraphImpl> {
  static constexpr std::array names{
      EnumName{CudaGraphImpl::none, "none"},
      EnumName{CudaGraphImpl::local, "local"},
      EnumName{CudaGraphImpl::transformer_engine, "transformer_engine"},
      EnumName{CudaGraphImpl::full_iteration, "full_iteration"},
  };
};

template <>
struct EnumNames<CudaGraphModule> {
  static constexpr std::array names{
      EnumName{CudaGraphModule::attn, "attn"},
      EnumName{CudaGraphModule::mlp, "mlp"},
      EnumName{CudaGraphModule::moe, "moe"},
      EnumName{CudaGraphModule::moe_router, "moe_router"},
      EnumName{CudaGraphModule::moe_preprocess, "moe_preprocess"},
      EnumName{CudaGraphModule::mamba, "mamba"},
      EnumName{CudaGraphModule::full, "full"},
      EnumName{CudaGraphModule::full_iteration, "full_iteration"},
      EnumName{CudaGraphModule::full_iteration_inference, "full_iteration_inference"},
  };
};

template <>
struct EnumNames<InferenceCudaGraphScope> {
  static constexpr std::array names{
      EnumName{InferenceCudaGraphScope::none, "none"},
      EnumName{InferenceCudaGraphScope::layer, "layer"},
      EnumName{InferenceCudaGraphScope::block, "block"},
  };
};

template <>
struct EnumNames<RecomputeGranularity> {
  static constexpr std::array names{
      EnumName{RecomputeGranularity::none, "none"},
      EnumName{RecomputeGranularity::full, "full"},
      EnumName{RecomputeGranularity::selective, "selective"},
  };
};

template <>
struct EnumNames<RecomputeMethod> {
  static constexpr std::array names{
      EnumName{RecomputeMethod::none, "none"},
      EnumName{RecomputeMethod::uniform, "uniform"},
      EnumName{RecomputeMethod::block, "block"},
  };
};

template <>
struct EnumNames<RecomputeModule> {
  static constexpr std::array names{
      EnumName{RecomputeModule::core_attn, "core_attn"},
      EnumName{RecomputeModule::moe_act, "moe_act"},
      EnumName{RecomputeModule::layernorm, "layernorm"},
      EnumName{RecomputeModule::mla_up_proj, "mla_up_proj"},
      EnumName{RecomputeModule::mlp, "mlp"},
      EnumName{RecomputeModule::moe, "moe"},
      EnumName{RecomputeModule::shared_experts, "shared_experts"},
      EnumName{RecomputeModule::gdn_norm_out, "gdn_norm_out"},
      EnumName{RecomputeModule::gdp_in_proj, "gdp_in_proj"},
      EnumName{RecomputeModule::gdp_qkv, "gdp_qkv"},
      EnumName{RecomputeModule::mhc, "mhc"},
  };
};

template <>
struct EnumNames<OffloadModule> {
  static constexpr std::array names{
      EnumName{OffloadModule::attn_norm, "attn_norm"},
      EnumName{OffloadModule::qkv_linear, "qkv_linear"},
      EnumName{OffloadModule::core_attn, "core_attn"},
      EnumName{OffloadModule::attn_proj, "attn_proj"},
      EnumName{OffloadModule::mlp_norm, "mlp_norm"},
      EnumName{OffloadModule::expert_fc1, "expert_fc1"},
      EnumName{OffloadModule::moe_act, "moe_act"},
      EnumName{OffloadModule::fused_group_mlp, "fused_group_mlp"},
  };
};

template <>
struct EnumNames<MoeTokenDispatcherType> {
  static constexpr std::array names{
      EnumName{MoeTokenDispatcherType::allgather, "allgather"},
      EnumName{MoeTokenDispatcherType::alltoall, "alltoall"},
      EnumName{MoeTokenDispatcherType::flex, "flex"},
  };
};

template <>
struct EnumNames<MoeFlexDispatcherBackend> {
  static constexpr std::array names{
      EnumName{MoeFlexDispatcherBackend::none, "none"},
      EnumName{MoeFlexDispatcherBackend::deepep, "deepep"},
      EnumName{MoeFlexDispatcherBackend::hybridep, "hybridep"},
      EnumName{MoeFlexDispatcherBackend::ncclep, "ncclep"},
  };
};

template <>
struct EnumNames<TransformerImpl> {
  static constexpr std::array names{
      EnumName{TransformerImpl::local, "local"},
      EnumName{TransformerImpl::transformer_engine, "transformer_engine"},
      EnumName{TransformerImpl::inference_optimized, "inference_optimized"},
  };
};

template <>
struct EnumNames<Fp8Format> {
  static constexpr std::array names{
      EnumName{Fp8Format::none, "none"},
      EnumName{Fp8Format::e4m3, "e4m3"},
      EnumName{Fp8Format::hybrid, "hybrid"},
  };
};

template <>
struct EnumNames<Fp8Recipe> {
  static constexpr std::array names{
      EnumName{Fp8Recipe::delayed, "delayed"}, EnumName{Fp8Recipe::tensorwise, "tensorwise"},
      EnumName{Fp8Recipe::mxfp8, "mxfp8"},     EnumName{Fp8Recipe::blockwise, "blockwise"},
      EnumName{Fp8Recipe::custom, "custom"},
  };
};

template <>
struct EnumNames<Fp8AmaxComputeAlgo> {
  static constexpr std::array names{
      EnumName{Fp8AmaxComputeAlgo::most_recent, "most_recent"},
      EnumName{Fp8AmaxComputeAlgo::max, "max"},
  };
};

template <>
struct EnumNames<CrossEntropyFusionImpl> {
  static constexpr std::array names{
      EnumName{CrossEntropyFusionImpl::native, "native"},
      EnumName{CrossEntropyFusionImpl::te, "te"},
  };
};

template <>
struct EnumNames<ParamsDtype> {
  static constexpr std::array names{
      EnumName{ParamsDtype::fp32, "fp32"},           EnumName{ParamsDtype::fp32, "float32"},
      EnumName{ParamsDtype::fp32, "torch.float32"},  EnumName{ParamsDtype::fp64, "fp64"},
      EnumName{ParamsDtype::fp64, "float64"},        EnumName{ParamsDtype::fp64, "torch.float64"},
      EnumName{ParamsDtype::bf16, "bf16"},           EnumName{ParamsDtype::bf16, "bfloat16"},
      EnumName{ParamsDtype::bf16, "torch.bfloat16"}, EnumName{ParamsDtype::fp16, "fp16"},
      EnumName{ParamsDtype::fp16, "float16"},        EnumName{ParamsDtype::fp16, "half"},
      EnumName{ParamsDtype::fp16, "torch.float16"},
  };
};

template <>
struct EnumNames<OptimizerName> {
  static constexpr std::array names{
      EnumName{OptimizerName::adam, "adam"},
      EnumName{OptimizerName::sgd, "sgd"},
      EnumName{OptimizerName::muon, "muon"},
  };
};

template <>
struct EnumNames<ExperimentalAttentionVariant> {
  static constexpr std::array names{
      EnumName{ExperimentalAttentionVariant::none, "none"},
      EnumName{ExperimentalAttentionVariant::gdn, "gdn"},
      EnumName{ExperimentalAttentionVariant::gdn, "gated_delta_net"},
      EnumName{ExperimentalAttentionVariant::gdn2, "gdn2"},
      EnumName{ExperimentalAttentionVariant::dsa, "dsa"},
  };
};

template <>
struct EnumNames<SequencePacking> {
  static constexpr std::array names{
      EnumName{SequencePacking::none, "none"},
      EnumName{SequencePacking::offline, "offline"},
      EnumName{SequencePacking::in_batch, "in_batch"},
      EnumName{SequencePacking::energon, "energon"},
  };
};

template <>
struct EnumNames<GraphPool> {
  static constexpr std::array names{
      EnumName{GraphPool::shared, "shared"},
      EnumName{GraphPool::separate, "separate"},
  };
};

/// All spellings of `E`.
template <typename E>
constexpr std::span<const EnumName<E>> enum_names() {
  return EnumNames<E>::names;
}

/// The spelling that is written for `value`.
template <typename E>
constexpr std::string_view enum_name(E value) {
  for (const EnumName<E>& entry : EnumNames<E>::names) {
    if (entry.value == value) return entry.name;
  }
  return {};
}

/// The value spelt `name`, or null.
template <typename E>
constexpr const EnumName<E>* find_enum(std::string_view name) {
  for (const EnumName<E>& entry : EnumNames<E>::names) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

}  // namespace cgconform::matrix

#include "workloads/layers/moe_layer.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "matrix/error.hpp"
#include "workloads/layers/moe_experts.hpp"
#include "workloads/layers/moe_postprocess.hpp"
#include "workloads/layers/moe_preprocess.hpp"
#include "workloads/layers/moe_router.hpp"
#include "workloads/layers/self_attention.hpp"
#include "workloads/layers/shared_rows.hpp"

namespace cgconform::workloads {

MoeTransformerLayer::MoeTransformerLayer(const std::string& name, const TransformerShape& shape,
                                         const MoeShape& moe, const ModuleParameters& made_in,
                                         bool attention)
    : ModularLayer(name) {
  const auto numbered = [&](std::uint64_t module) {
    ModuleParameters of_module = made_in;
    of_module.first_number += module * parameters_a_module;
    return of_module;
  };
  if (attention) append("attn", std::make_unique<SelfAttention>(name, shape, numbered(0)));
  // The tokens that a rank routes.
  TransformerShape routed = shape;
  if (made_in.tensor.shares_rows()) routed.length /= made_in.tensor.size();
  append("moe_router", std::make_unique<MoeRouter>(name, routed, moe, numbered(1)));
  const DType dtype = parameters().front().weight.dtype;
  append("moe_preprocess", std::make_unique<MoePreprocess>(name, routed, moe, dtype));
  append("moe_experts", std::make_unique<MoeExperts>(name, routed, moe, numbered(2), dtype));
  append("moe_postprocess", std::make_unique<MoePostprocess>(
                                name, routed, moe, dtype, hidden_dropout_stream(made_in.tensor)));
}

MoeShape moe_shape(const matrix::Cell& cell, Communicator* group) {
  const matrix::TrainingConfig& config = cell.config;
  MoeShape moe;
  moe.experts = config.num_moe_experts.value_or(1);
  moe.top_k = config.moe_router_topk;
  moe.ffn_hidden = config.moe_ffn_hidden_size.value_or(cell.shape.ffn_hidden_size);
  moe.shared_hidden = config.moe_shared_expert_intermediate_size.value_or(0);
  moe.jitter = config.moe_input_jitter_eps.value_or(0.0F);
  moe.balance_coefficient = config.moe_aux_loss_coeff;
  moe.expert_bias = config.moe_router_enable_expert_bias;
  moe.grad_scale = 1.0F / static_cast<float>(config.num_microbatches * config.data_parallel_size);
  moe.group = group;
  moe.dispatcher = config.moe_token_dispatcher_type;
  if (moe.top_k < 1 || moe.top_k > moe.experts) {
    throw Error(fmt::format("moe_router_topk {} is not between 1 and num_moe_experts {}", moe.top_k,
                            moe.experts));
  }
  if (moe.experts % config.expert_model_parallel_size != 0) {
    throw Error(fmt::format("num_moe_experts {} is not a multiple of expert_model_parallel_size {}",
                            moe.experts, config.expert_model_parallel_size));
  }
  const std::int32_t parts = config.tensor_model_parallel_size;
  for (const auto& [value, name] :
       {std::pair{moe.ffn_hidden,
                  config.moe_ffn_hidden_size ? "moe_ffn_hidden_size" : "ffn_hidden_size"},
        std::pair{moe.shared_hidden, "moe_shared_expert_intermediate_size"}}) {
    if (value % parts == 0) continue;
    throw Error(fmt::format("{} {} is not a multiple of tensor_model_parallel_size {}", name, value,
                            parts));
  }
  if (config.moe_pad_expert_input_to_capacity) {
    const std::int32_t length =
        config.sequence_parallel ? config.seq_length / parts : config.seq_length;
    const std::int64_t places = std::int64_t{config.micro_batch_size} * length * moe.top_k;
    const double wanted = static_cast<double>(places) / moe.experts *
                          static_cast<double>(config.moe_expert_capacity_factor.value_or(1.0F));
    moe.capacity = std::max(static_cast<std::int32_t>(std::ceil(wanted)), 1);
  }
  return moe;
}

}  // namespace cgconform::workloads

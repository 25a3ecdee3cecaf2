#pragma once

#include <cmath>
#include <cstdint>

#include "workloads/layers/parameter_store.hpp"
#include "workloads/layers/tensor_parallel.hpp"

namespace cgconform::workloads {

class Fp8State;

/// Sizes and rates of a transformer layer on one micro-batch.
struct TransformerShape {
  std::int32_t sequences = 1;
  std::int32_t length = 1;
  std::int32_t hidden = 1;
  std::int32_t heads = 1;
  std::int32_t groups = 0;  ///< of heads that share a key and a value; 0 where none do
  bool latent = false;      ///< multi-latent attention
  std::int32_t ffn_hidden = 1;
  float attention_dropout = 0.0F;
  float hidden_dropout = 0.0F;
  bool bias = true;

  std::int32_t key_value_heads() const { return groups > 0 ? groups : heads; }
  std::int64_t tokens() const { return std::int64_t{sequences} * length; }
  /// How many sequences so many rows are; a partial micro-batch has fewer than `sequences`.
  std::int32_t sequences_of(std::int64_t rows) const {
    return static_cast<std::int32_t>(rows / length);
  }
};

/// Where the parameters of one module of a layer are made. Numbers of parameters run over the whole
/// model; the modules of a layer divide those of the layer among themselves.
struct ModuleParameters {
  ParameterStore& store;
  std::uint64_t first_number = 0;
  TensorParallel tensor{};
  Fp8State* fp8 = nullptr;  ///< null where linear layers are not quantised
};

constexpr ParameterInit norm_weight_init{1.0F, 0.02F};
constexpr ParameterInit bias_init{0.0F, 0.02F};

/// How a weight starts that sums up `fan_in` inputs.
inline ParameterInit weight_init(std::int64_t fan_in) {
  return {0.0F, 1.0F / std::sqrt(static_cast<float>(fan_in))};
}

}  // namespace cgconform::workloads

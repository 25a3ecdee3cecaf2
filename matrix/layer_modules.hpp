#pragma once

#include <cstdint>

#include "matrix/training_config.hpp"

namespace cgconform::matrix {

/// The modules that layer `layer` of the model is made of, as graph scopes name them. A layer of a
/// hybrid model is one module.
CudaGraphScope modules_of_layer(const TrainingConfig& config, std::int32_t layer);

/// The modules that at least one layer of the model has.
CudaGraphScope modules_of_model(const TrainingConfig& config);

/// True where a scope of layers selects at least one module of the layer; the empty one selects
/// all.
bool selects_layer(const TrainingConfig& config, std::int32_t layer);

}  // namespace cgconform::matrix

#pragma once

#include <optional>

#include "matrix/field_value.hpp"
#include "matrix/training_config.hpp"

namespace cgconform::matrix {

// One reader for each type that a field of `TrainingConfig` can have. Each stores `value` in `out`
// or throws InputError that says what was expected, without the name of the field or its place.

void read_field(const FieldValue& value, bool& out);
void read_field(const FieldValue& value, std::int32_t& out);
void read_field(const FieldValue& value, float& out);
void read_field(const FieldValue& value, CudaGraphImpl& out);
void read_field(const FieldValue& value, CudaGraphScope& out);
void read_field(const FieldValue& value, InferenceCudaGraphScope& out);
void read_field(const FieldValue& value, RecomputeGranularity& out);
void read_field(const FieldValue& value, RecomputeMethod& out);
void read_field(const FieldValue& value, RecomputeModules& out);
void read_field(const FieldValue& value, OffloadModules& out);
void read_field(const FieldValue& value, MoeTokenDispatcherType& out);
void read_field(const FieldValue& value, MoeFlexDispatcherBackend& out);
void read_field(const FieldValue& value, MoeLayerFreq& out);
void read_field(const FieldValue& value, HybridPattern& out);
void read_field(const FieldValue& value, TransformerImpl& out);
void read_field(const FieldValue& value, Fp8Format& out);
void read_field(const FieldValue& value, Fp8Recipe& out);
void read_field(const FieldValue& value, Fp8AmaxComputeAlgo& out);
void read_field(const FieldValue& value, CrossEntropyFusionImpl& out);
void read_field(const FieldValue& value, ParamsDtype& out);
void read_field(const FieldValue& value, OptimizerName& out);
void read_field(const FieldValue& value, ExperimentalAttentionVariant& out);
void read_field(const FieldValue& value, SequencePacking& out);

template <typename T>
void read_field(const FieldValue& value, std::optional<T>& out) {
  T inner{};
  read_field(value, inner);
  out = inner;
}

}  // namespace cgconform::matrix

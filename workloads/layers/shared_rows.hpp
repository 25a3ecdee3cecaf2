#pragma once

#include <string_view>

#include "workloads/layers/layer.hpp"
#include "workloads/layers/tensor_parallel.hpp"

/// Where hidden states cross between the parts of a layer that tensor-parallel ranks work on by
/// rows, each on its share, and those they work on by columns, which need all rows. Without shared
/// rows every rank has all of them everywhere.
namespace cgconform::workloads {

/// All rows of `x`; `holder` keeps them where they were gathered.
TensorView gather_rows(LayerContext& context, const TensorParallel& tensor, const TensorView& x,
                       Buffer& holder, std::string_view name);

/// The sum of the ranks' `partial` results: all rows of it, or this rank's share.
Buffer sum_rows(LayerContext& context, const TensorParallel& tensor, Buffer partial,
                std::string_view name);

/// This rank's share of rows that all ranks have.
TensorView own_rows(const TensorParallel& tensor, const TensorView& all);

/// What dropout between the layers' products draws from: ranks that have the same rows drop the
/// same.
RngStream hidden_dropout_stream(const TensorParallel& tensor);

}  // namespace cgconform::workloads

#include "workloads/layers/shared_rows.hpp"

#include <cstdint>
#include <string>

#include "workloads/layers/layer_ops.hpp"
#include "workloads/training/tensor_ops.hpp"

namespace cgconform::workloads {

TensorView gather_rows(LayerContext& context, const TensorParallel& tensor, const TensorView& x,
                       Buffer& holder, std::string_view name) {
  if (!tensor.shares_rows()) return x;
  const std::string label = op_label(context, name) + " all-gather";
  holder = Buffer(context.allocator, context.stream, context.pool, x.dtype,
                  {x.shape[0] * tensor.size(), x.shape[1]}, label);
  tensor.all_gather(holder.view(), x, context.stream, label);
  return holder.view();
}

Buffer sum_rows(LayerContext& context, const TensorParallel& tensor, Buffer partial,
                std::string_view name) {
  if (!tensor.shares_rows()) {
    tensor.all_reduce(partial.view(), context.stream, op_label(context, name) + " all-reduce");
    return partial;
  }
  const TensorView& all = partial.view();
  const std::string label = op_label(context, name) + " reduce-scatter";
  Buffer own(context.allocator, context.stream, context.pool, all.dtype,
             {all.shape[0] / tensor.size(), all.shape[1]}, label);
  tensor.reduce_scatter(own.view(), all, context.stream, label);
  return own;
}

TensorView own_rows(const TensorParallel& tensor, const TensorView& all) {
  if (!tensor.shares_rows()) return all;
  const std::int64_t rows = all.shape[0] / tensor.size();
  return rows_of(all, tensor.rank() * rows, rows);
}

RngStream hidden_dropout_stream(const TensorParallel& tensor) {
  return tensor.shares_rows() ? RngStream::tensor_parallel : RngStream::data_parallel;
}

}  // namespace cgconform::workloads

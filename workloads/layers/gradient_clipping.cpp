#include "workloads/layers/gradient_clipping.hpp"

#include <cstddef>
#include <cstdint>

#include "matrix/virtual_stages.hpp"
#include "workloads/ops/elementwise.hpp"
#include "workloads/ops/gradient_norm.hpp"
#include "workloads/training/tensor_ops.hpp"

namespace cgconform::workloads {

namespace {

/// Which parameters count on a rank.
class Counting {
 public:
  Counting(const matrix::Cell& cell, const Communicator* gang) {
    if (gang == nullptr) return;
    const std::int32_t replica = matrix::replica_of(cell, gang->rank());
    first_tensor_rank_ = matrix::tensor_rank_of(cell, gang->rank()) == 0;
    first_replica_ = replica == 0;
    // Neighbouring replicas hold different experts.
    first_expert_replica_ = replica < cell.config.expert_model_parallel_size;
  }

  bool counts(const Parameter& parameter) const {
    return (parameter.of_experts ? first_expert_replica_ : first_replica_) &&
           (parameter.tensor_share || first_tensor_rank_);
  }

 private:
  bool first_tensor_rank_ = true;
  bool first_replica_ = true;
  bool first_expert_replica_ = true;
};

/// The parameters whose gradients lie in `chunk`, as parts of it, which are empty where they do not
/// count: so ranks of one role run the same work.
std::vector<GradientPart> parts_of(const StageModel& model, const TensorView& chunk,
                                   const Counting& counting) {
  std::vector<GradientPart> parts;
  const auto* begin = static_cast<const std::byte*>(chunk.data);
  for (const StageParameter& entry : model.parameters()) {
    const TensorView& grad = entry.parameter.main_grad;
    const auto* data = static_cast<const std::byte*>(grad.data);
    const bool inside = data >= begin && data < begin + chunk.bytes();
    if (!inside) continue;
    parts.push_back({.first = (data - begin) / dtype_bytes(grad.dtype),
                     .count = counting.counts(entry.parameter) ? grad.elements() : 0});
  }
  return parts;
}

Buffer scalar(CachingAllocator& allocator, Stream& stream, const char* name) {
  Buffer buffer(allocator, stream, default_pool, DType::fp64, Shape{}, name);
  const double one = 1.0;
  stream.upload(buffer.view(), &one, false, name);
  return buffer;
}

}  // namespace

GradientClipping::GradientClipping(const matrix::Cell& cell, const StageModel& model,
                                   CachingAllocator& allocator, Stream& stream, Communicator* gang)
    : largest_norm_(cell.shape.clip_grad),
      gang_(gang),
      sums_(allocator, stream, default_pool, DType::fp64,
            Shape{static_cast<std::int64_t>(model.parameters().size())}, "square sums"),
      squares_(scalar(allocator, stream, "squares")),
      norm_(scalar(allocator, stream, "grad_norm")),
      factor_(scalar(allocator, stream, "clip_factor")) {
  stream.fill(sums_.view(), 0, "square sums");
  const Counting counting(cell, gang);
  std::int64_t first = 0;
  for (const ParameterChunk& parameters : model.parameter_chunks()) {
    Chunk& chunk = chunks_.emplace_back();
    chunk.grads = parameters.main_grads;
    const std::vector<GradientPart> parts = parts_of(model, chunk.grads, counting);
    const auto count = static_cast<std::int64_t>(parts.size());
    chunk.parts =
        Buffer(allocator, stream, default_pool, DType::uint8,
               Shape{count * static_cast<std::int64_t>(sizeof(GradientPart))}, "gradient parts");
    stream.upload(chunk.parts.view(), parts.data(), false, "gradient parts");
    chunk.sums = elements_of(sums_.view(), first, Shape{count});
    first += count;
  }
}

void GradientClipping::measure(Stream& stream, const TensorView& overflowed) {
  constexpr const char* label = "gradient norm";
  for (const Chunk& chunk : chunks_) {
    square_sums(stream, chunk.sums, chunk.grads, chunk.parts.view(), label);
  }
  const TensorView& squares = squares_.view();
  TensorView total = squares;
  total.shape = Shape{1};
  TensorView column = sums_.view();
  column.shape = Shape{column.elements(), 1};
  stream.fill(squares, 0, label);
  bias_grad(stream, total, column, label);  // the sum of the only column
  if (gang_ != nullptr) gang_->all_reduce(squares, squares, ReduceOp::sum, stream, label);
  clip_factor(stream, factor_.view(), norm_.view(), squares, overflowed,
              {.largest_norm = static_cast<double>(largest_norm_)}, "clip factor");
}

void GradientClipping::apply(Stream& stream, const TensorView& factor) {
  for (const Chunk& chunk : chunks_) scale_by(stream, chunk.grads, factor, "clip gradients");
}

std::vector<std::pair<std::string, TensorView>> GradientClipping::state() const {
  return {{"grad_norm", norm_.view()}, {"clip_factor", factor_.view()}};
}

}  // namespace cgconform::workloads

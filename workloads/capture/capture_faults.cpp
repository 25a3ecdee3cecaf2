#include "workloads/capture/capture_faults.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "matrix/error.hpp"
#include "workloads/ops/fill.hpp"
#include "workloads/training/tensor_ops.hpp"

namespace cgconform::workloads {
namespace {

constexpr std::uint8_t nan_byte = 0xFF;  // a NaN in every floating-point type
constexpr std::int64_t usual_branches = 2;
constexpr std::int64_t wide_fan_out = 64;

/// Two gradients of one layer with equal shapes; null where there are none.
std::pair<const Parameter*, const Parameter*> equal_shapes(std::span<const Parameter> parameters) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    for (std::size_t j = i + 1; j < parameters.size(); ++j) {
      if (parameters[i].main_grad.shape == parameters[j].main_grad.shape) {
        return {&parameters[i], &parameters[j]};
      }
    }
  }
  return {nullptr, nullptr};
}

}  // namespace

CaptureFaults::~CaptureFaults() {
  if (mapped_) context_.device().unmappable_source().release(*mapped_);
}

void CaptureFaults::before_capture(PoolId pool) {
  if (context_.fault(Fault::f07c_graph_safe_request_dropped)) {
    const TensorView& state = context_.rng.states;
    if (!random_state_.valid()) {
      random_state_ = Buffer(context_.allocator(), context_.stream(), default_pool, state.dtype,
                             state.shape, "random state by value");
    }
    context_.stream().copy(random_state_.view(), state, "random state by value");
  }
  if (context_.fault(Fault::f02b_unmapped_temporary) && !mapped_) {
    const std::int64_t bytes =
        context_.hidden_shape().elements() * dtype_bytes(context_.model_type());
    mapped_ = context_.device().unmappable_source().allocate(bytes);
  }
  if (context_.fault(Fault::f02c_workspace_fill_outside)) {
    const Buffer& workspace = kept_workspaces_.emplace_back(
        context_.allocator(), context_.stream(), pool, context_.model_type(),
        context_.hidden_shape(), "gradient workspace");
    context_.stream().fill(workspace.view(), 0, "zero workspace outside the capture");
  }
}

void CaptureFaults::at_capture_start() {
  if (!context_.fault(Fault::f07c_graph_safe_request_dropped)) return;
  context_.stream().copy(context_.rng.states, random_state_.view(), "random state by value");
}

void CaptureFaults::after_last_capture(PoolId pool) {
  if (mapped_) context_.device().unmappable_source().unmap(*mapped_);
  if (!context_.fault(Fault::f02a_freed_temporary) || temporaries_.empty() || canary_) return;
  std::vector<Buffer> tried;
  constexpr std::size_t tries = 256;
  while (tried.size() < tries) {
    const TensorView& temporary = temporaries_.back();
    Buffer candidate(context_.allocator(), context_.stream(), pool, temporary.dtype,
                     temporary.shape, "canary");
    const bool recycled =
        std::any_of(temporaries_.begin(), temporaries_.end(),
                    [&](const TensorView& t) { return t.data == candidate.view().data; });
    if (recycled) {
      context_.stream().fill(candidate.view(), 0, "canary");
      canary_ = std::move(candidate);
      return;
    }
    tried.push_back(std::move(candidate));
  }
  throw InternalError(
      "fault F02a: the pool does not hand a captured temporary's address out again");
}

void CaptureFaults::before_launch() {
  for (const Buffer& workspace : kept_workspaces_) {
    context_.stream().fill(workspace.view(), nan_byte, "workspace left to others");
  }
}

TensorView CaptureFaults::workspace(PoolId pool, const TensorView& like, Buffer& holder) {
  if (mapped_) {
    TensorView view = like;
    view.data = mapped_->data;
    return view;
  }
  if (!kept_workspaces_.empty()) return kept_workspaces_.back().view();
  holder = Buffer(context_.allocator(), context_.stream(), pool, like.dtype, like.shape,
                  "gradient workspace");
  if (context_.fault(Fault::f02a_freed_temporary)) temporaries_.push_back(holder.view());
  return holder.view();
}

void CaptureFaults::zero_workspace(const TensorView& workspace, const TensorView& zeros,
                                   PoolId pool) {
  Stream& stream = context_.stream();
  if (context_.fault(Fault::f02c_workspace_fill_outside)) return;
  if (context_.fault(Fault::f02e_host_record_freed)) {
    upload_zeros_from_record(workspace);
    return;
  }
  if (context_.fault(Fault::f36_written_past_the_end)) {
    constexpr std::int64_t overrun_bytes = 64;
    TensorView longer = workspace;
    longer.shape = Shape{workspace.elements() + overrun_bytes / dtype_bytes(workspace.dtype)};
    fill_uniform(stream, longer, {.low = 0.0F, .high = 0.0F}, "zero gradient workspace");
    return;
  }
  if (!context_.fault(Fault::f02d_table_in_graph_pool)) {
    stream.copy(workspace, zeros, "zero gradient workspace");
    return;
  }
  // The table is meant for all captures. The pool takes it for a temporary of the first, and gives
  // its memory to what that capture allocates next.
  Buffer table;
  if (!table_block_) {
    table = Buffer(context_.allocator(), stream, pool, zeros.dtype, zeros.shape, "zero table");
    table_block_ = table.block();
    table_view_ = table.view();
    stream.copy(table_view_, zeros, "make zero table");
  }
  stream.copy(workspace, table_view_, "zero gradient workspace");
}

void CaptureFaults::upload_zeros_from_record(const TensorView& workspace) {
  auto owned = std::make_unique<HostRecord>();
  HostRecord* record = owned.get();
  const auto bytes = static_cast<std::size_t>(workspace.bytes());
  record->values.assign(bytes, std::byte{0});
  record->staging.assign(bytes, std::byte{0});
  host_records_.push_back(std::move(owned));
  context_.stream().host_function(
      [record] {
        std::memcpy(record->staging.data(), record->values.data(), record->values.size());
        std::memset(record->values.data(), nan_byte, record->values.size());
        record->freed = true;
      },
      host_record_label);
  context_.stream().upload(workspace, record->staging.data(), true, "zero gradient workspace");
}

std::int64_t CaptureFaults::branches(std::int64_t rows) const {
  const bool wide = context_.fault(Fault::f17c_fan_out_edge_removed);
  return std::min(rows, wide ? wide_fan_out : usual_branches);
}

bool CaptureFaults::drops_wait(std::int64_t branch) const {
  return (context_.fault(Fault::f17a_wait_dropped) && branch == 0) ||
         (context_.fault(Fault::f17c_fan_out_edge_removed) && branch == 1);
}

void CaptureFaults::before_layer_backward(const Layer& layer, std::int32_t index, PoolId pool) {
  Stream& stream = context_.stream();
  if (context_.fault(Fault::f14a_overwrite_instead_of_accumulate) ||
      context_.fault(Fault::f04b_weight_grad_slot_handed_out)) {
    for (const Parameter& parameter : layer.parameters()) {
      stream.fill(parameter.main_grad, 0, "overwrite " + parameter.name);
    }
  }
  if (context_.fault(Fault::f14d_parameter_left_out)) {
    if (left_out_layer_ < 0) left_out_layer_ = index;
    if (left_out_layer_ != index) return;
    const TensorView& grad = layer.parameters().front().main_grad;
    left_out_ = Buffer(context_.allocator(), stream, pool, grad.dtype, grad.shape, "left out");
    stream.copy(left_out_.view(), grad, "parameter left out");
  }
}

void CaptureFaults::after_layer_backward(const Layer& layer, std::int32_t index) {
  if (!left_out_.valid() || left_out_layer_ != index) return;
  context_.stream().copy(layer.parameters().front().main_grad, left_out_.view(),
                         "parameter left out");
  left_out_.reset();
}

void CaptureFaults::after_gradients_hashed(const Layer& layer, PoolId pool) {
  if (!context_.fault(Fault::f04c_swapped_grad_slots)) return;
  const auto [first, second] = equal_shapes(layer.parameters());
  if (first == nullptr) return;
  Stream& stream = context_.stream();
  const TensorView& grad = first->main_grad;
  Buffer swap(context_.allocator(), stream, pool, grad.dtype, grad.shape, "swapped gradient");
  stream.copy(swap.view(), first->main_grad, "swap gradients");
  stream.copy(first->main_grad, second->main_grad, "swap gradients");
  stream.copy(second->main_grad, swap.view(), "swap gradients");
}

}  // namespace cgconform::workloads

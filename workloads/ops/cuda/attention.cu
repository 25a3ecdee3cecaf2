#include "workloads/ops/attention.hpp"
#include "workloads/ops/cuda/kernels.hpp"
#include "workloads/ops/cuda/packs.cuh"

namespace cgconform::workloads::cuda {

namespace {

/// Index into rows of element `i` of a part's heads. In 32 bits where that is enough, for their
/// division is the cost of moving heads.
template <typename Index>
__device__ std::int64_t row_index(const HeadsParams& params, std::int64_t element) {
  const auto i = static_cast<Index>(element);
  const auto size = static_cast<Index>(params.size);
  const auto length = static_cast<Index>(params.length);
  const auto heads = static_cast<Index>(params.heads);
  const Index within = i % size;
  const Index position = i / size % length;
  const Index head = i / size / length % heads;
  const Index sequence = i / size / length / heads;
  const std::int64_t width = std::int64_t{params.heads} * params.size;
  return (static_cast<std::int64_t>(sequence) * params.length + position) * width * params.parts +
         width * params.part + static_cast<std::int64_t>(head) * params.size + within;
}

template <typename Index, typename T>
void split_heads_by(const HeadsParams& params, const TensorView& tensor, T* heads, const T* rows,
                    const LaunchContext& context) {
  const bool packed = params.size % pack_size<T> == 0 && on_pack_borders(heads, rows);
  for_each_pack<T>(tensor.elements(), packed, context, [=] __device__(const Lanes& lanes) {
    store(heads, lanes, load(rows, Lanes{row_index<Index>(params, lanes.first), lanes.count}));
  });
}

/// The heads of up to three parts.
template <typename T>
struct HeadParts {
  T* heads[3];
};

template <typename T>
HeadParts<T> parts_of(const OpCall& call, const HeadsParams& params) {
  HeadParts<T> parts{};
  for (int part = 0; part < params.parts; ++part) {
    parts.heads[part] = elements<T>(call, 1 + static_cast<std::size_t>(part));
  }
  return parts;
}

/// Calls move(heads, lanes of heads, lanes of rows) for the packs of all parts.
template <typename Index, typename T, typename Move>
void for_each_part(const HeadsParams& params, const TensorView& part, const T* rows,
                   const HeadParts<T>& parts, const LaunchContext& context, Move move) {
  const bool packed = params.size % pack_size<T> == 0 &&
                      on_pack_borders(rows, parts.heads[0], parts.heads[1], parts.heads[2]);
  const std::int64_t elements_a_part = part.elements();
  for_each_pack<T>(
      elements_a_part * params.parts, packed, context, [=] __device__(const Lanes& lanes) {
        HeadsParams own = params;
        own.part = static_cast<std::int32_t>(lanes.first / elements_a_part);
        const Lanes from{lanes.first % elements_a_part, lanes.count};
        move(parts.heads[own.part], from, Lanes{row_index<Index>(own, from.first), from.count});
      });
}

template <typename Index, typename T>
void merge_heads_by(const HeadsParams& params, const TensorView& part, T* rows,
                    const HeadParts<T>& parts, const LaunchContext& context) {
  for_each_part<Index>(params, part, static_cast<const T*>(rows), parts, context,
                       [rows] __device__(const T* heads, const Lanes& from, const Lanes& to) {
                         store(rows, to, load(heads, from));
                       });
}

template <typename Index, typename T>
void split_parts_by(const HeadsParams& params, const TensorView& part, T* rows,
                    const HeadParts<T>& parts, const LaunchContext& context) {
  for_each_part<Index>(params, part, static_cast<const T*>(rows), parts, context,
                       [rows] __device__(T * heads, const Lanes& to, const Lanes& from) {
                         store(heads, to, load(static_cast<const T*>(rows), from));
                       });
}

bool fits_32_bits(const TensorView& tensor) {
  return tensor.elements() <= 0x7FFFFFFF;
}

template <typename T>
void split_heads_of(const OpCall& call, const LaunchContext& context) {
  const auto params = call.params.as<HeadsParams>();
  const auto split = fits_32_bits(call.operand(0)) ? split_heads_by<std::uint32_t, T>
                                                   : split_heads_by<std::uint64_t, T>;
  split(params, call.operand(0), elements<T>(call, 0), elements<T>(call, 1), context);
}

template <typename T>
void merge_heads_of(const OpCall& call, const LaunchContext& context) {
  const auto params = call.params.as<HeadsParams>();
  const auto merge = fits_32_bits(call.operand(1)) ? merge_heads_by<std::uint32_t, T>
                                                   : merge_heads_by<std::uint64_t, T>;
  merge(params, call.operand(1), elements<T>(call, 0), parts_of<T>(call, params), context);
}

template <typename T>
void split_parts_of(const OpCall& call, const LaunchContext& context) {
  const auto params = call.params.as<HeadsParams>();
  const auto split = fits_32_bits(call.operand(1)) ? split_parts_by<std::uint32_t, T>
                                                   : split_parts_by<std::uint64_t, T>;
  split(params, call.operand(1), elements<T>(call, 0), parts_of<T>(call, params), context);
}

/// Largest score seen so far, and the sum of the exponentials relative to it.
template <typename A>
struct Softmax {
  A largest;
  A sum;
};

template <typename T>
void causal_softmax_forward_of(const OpCall& call, const LaunchContext& context) {
  using A = Arithmetic<T>;
  const A scale = A(call.params.as<SoftmaxParams>().scale);
  const std::int64_t length = extent(call, 0, 2);
  T* probabilities = elements<T>(call, 0);
  const T* scores = elements<T>(call, 1);
  const bool packed = length % pack_size<T> == 0 && on_pack_borders(probabilities, scores);
  for_each_row(call.operand(0).elements() / length, context, [=] __device__(std::int64_t row) {
    const T* in = scores + row * length;
    const std::int64_t visible = row % length + 1;
    // Starts at a score that the row has, so that every difference below is finite.
    Softmax<A> mine{widened(in[0]) * scale, A(0)};
    for_each_in_row<T>(visible, packed, [&](const Lanes& lanes) {
      const Pack<T> values = load(in, lanes);
      A largest = mine.largest;
      for_each_lane<T>(lanes, [&](int lane) {
        largest = larger(largest, widened(values.values[lane]) * scale);
      });
      A sum = mine.sum * exp(mine.largest - largest);
      for_each_lane<T>(
          lanes, [&](int lane) { sum += exp(widened(values.values[lane]) * scale - largest); });
      mine = {largest, sum};
    });
    const A largest = block_max(mine.largest);
    const A sum = block_sum(mine.sum * exp(mine.largest - largest));
    for_each_in_row<T>(length, packed, [&](const Lanes& lanes) {
      Pack<T> results{};
      if (lanes.first < visible) {
        const Pack<T> values = load(in, lanes);
        for_each_lane<T>(lanes, [&](int lane) {
          const bool seen = lanes.first + lane < visible;
          const A power = exp(widened(values.values[lane]) * scale - largest);
          results.values[lane] = narrowed<T>(seen ? power / sum : A(0));
        });
      }
      store(probabilities + row * length, lanes, results);
    });
  });
}

template <typename T>
void causal_softmax_backward_of(const OpCall& call, const LaunchContext& context) {
  using A = Arithmetic<T>;
  const A scale = A(call.params.as<SoftmaxParams>().scale);
  const std::int64_t length = extent(call, 0, 2);
  T* grad_scores = elements<T>(call, 0);
  const T* grad_probabilities = elements<T>(call, 1);
  const T* probabilities = elements<T>(call, 2);
  const bool packed =
      length % pack_size<T> == 0 && on_pack_borders(grad_scores, grad_probabilities, probabilities);
  for_each_row(call.operand(0).elements() / length, context, [=] __device__(std::int64_t row) {
    const std::int64_t visible = row % length + 1;
    A dot = 0;
    for_each_in_row<T>(visible, packed, [&](const Lanes& lanes) {
      const Pack<T> grads = load(grad_probabilities + row * length, lanes);
      const Pack<T> values = load(probabilities + row * length, lanes);
      for_each_lane<T>(lanes, [&](int lane) {
        dot += widened(grads.values[lane]) * widened(values.values[lane]);
      });
    });
    dot = block_sum(dot);
    for_each_in_row<T>(length, packed, [&](const Lanes& lanes) {
      Pack<T> results{};
      if (lanes.first < visible) {
        const Pack<T> grads = load(grad_probabilities + row * length, lanes);
        const Pack<T> values = load(probabilities + row * length, lanes);
        for_each_lane<T>(lanes, [&](int lane) {
          const bool seen = lanes.first + lane < visible;
          const A slope =
              scale * widened(values.values[lane]) * (widened(grads.values[lane]) - dot);
          results.values[lane] = narrowed<T>(seen ? slope : A(0));
        });
      }
      store(grad_scores + row * length, lanes, results);
    });
  });
}

}  // namespace

void split_heads(const OpCall& call, const LaunchContext& context) {
  launch_typed(call, context, 0, CGCONFORM_FLOATING_KERNELS(split_heads_of));
}

void merge_heads(const OpCall& call, const LaunchContext& context) {
  launch_typed(call, context, 0, CGCONFORM_FLOATING_KERNELS(merge_heads_of));
}

void split_parts(const OpCall& call, const LaunchContext& context) {
  launch_typed(call, context, 0, CGCONFORM_FLOATING_KERNELS(split_parts_of));
}

void causal_softmax_forward(const OpCall& call, const LaunchContext& context) {
  launch_typed(call, context, 0, CGCONFORM_FLOATING_KERNELS(causal_softmax_forward_of));
}

void causal_softmax_backward(const OpCall& call, const LaunchContext& context) {
  launch_typed(call, context, 0, CGCONFORM_FLOATING_KERNELS(causal_softmax_backward_of));
}

}  // namespace cgconform::workloads::cuda

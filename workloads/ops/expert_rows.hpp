#pragma once

#include <cstdint>
#include <string>

#include "workloads/device/stream.hpp"

/// How tokens travel to the rows that experts work on, and back. A token has one place for each of
/// its k experts; a place has a slot, the row it travels to, or -1 where it was dropped; a row has
/// a source, the place it comes from (token * k + number), or -1 where it is padding.
namespace cgconform::workloads {

/// By-value scalars: rows an expert has, or 0 where it has as many as it gets tokens; k.
struct SlotParams {
  std::int32_t capacity = 0;
  std::int32_t top_k = 1;
};

extern const OpDeclaration assign_slots_op;
extern const OpDeclaration dispatch_rows_op;
extern const OpDeclaration combine_rows_op;
extern const OpDeclaration combine_weights_backward_op;

/// Gives every place of `experts` [tokens, k] the next row of its expert, in the order of tokens.
/// Rows lie by expert: `capacity` of each, or, where it is 0, as many as its `load` [experts].
/// Where a capacity is exceeded the place is dropped, and overflow [experts] counts it. `sources`
/// has an element a row.
void assign_slots(Stream& stream, const TensorView& slots, const TensorView& sources,
                  const TensorView& overflow, const TensorView& experts, const TensorView& load,
                  std::int32_t capacity, std::string label);
/// rows[r] = x[token of sources[r]], times the weight of its place where weights [tokens, k] are
/// given; 0 in padding. Also the gradient of `combine_rows` by its rows.
void dispatch_rows(Stream& stream, const TensorView& rows, const TensorView& x,
                   const TensorView& sources, const TensorView& weights, std::int32_t top_k,
                   std::string label);
/// output[t] = sum over the token's places of rows[slot], times the weight where weights are given.
/// Also the gradient of `dispatch_rows` by x.
void combine_rows(Stream& stream, const TensorView& output, const TensorView& rows,
                  const TensorView& slots, const TensorView& weights, std::string label);
/// grad_weights [tokens, k] of `combine_rows`: the product of a token's output gradient with the
/// row of its slot; 0 where it was dropped.
void combine_weights_backward(Stream& stream, const TensorView& grad_weights,
                              const TensorView& grad_output, const TensorView& rows,
                              const TensorView& slots, std::string label);

}  // namespace cgconform::workloads

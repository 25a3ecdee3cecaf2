#include <vector>

#include "workloads/ops/fused_attention.hpp"
#include "workloads/ops/head_groups.hpp"
#include "workloads/ops/mamba.hpp"
#include "workloads/ops/op_case_maker.hpp"
#include "workloads/ops/packed_attention.hpp"

namespace cgconform::workloads {
namespace {

void add_attention_cases(OperandMaker& make, std::vector<OpCase>& cases) {
  const Shape scores{2, make.width(), make.width()};
  // 2 sequences of 3 rows; 4 query heads, of which 2 share a key and a value.
  const std::int64_t size = make.width();
  const Shape grouped{8, 3, size};
  const Shape grouped_rows{6, 8 * size};
  const auto first_key = static_cast<std::int32_t>(4 * size);
  cases.push_back(
      {&take_heads_op,
       {make.numbers(grouped), make.numbers(grouped_rows)},
       [first_key](Stream& s, Views v) { take_heads(s, v[0], v[1], 2, first_key, 2, "case"); }});
  cases.push_back({&merge_head_groups_op,
                   {make.numbers(grouped_rows), make.numbers(grouped), make.numbers(grouped),
                    make.numbers(grouped)},
                   [](Stream& s, Views v) {
                     merge_head_groups(s, v[0], {v[1], v[2], v[3]}, 2, 2, "case");
                   }});
  const auto length = static_cast<std::int32_t>(make.width());
  // One head for each of two rows: borders at 2, and at 1 and 3; the rest is padding.
  const OperandContent borders = operand_content(
      Shape{2, 4}, std::vector<std::int32_t>{0, 2, length, length, 0, 1, 3, length});
  cases.push_back(
      {&packed_softmax_forward_op,
       {make.numbers(scores), make.numbers(scores), borders},
       [](Stream& s, Views v) { packed_softmax_forward(s, v[0], v[1], v[2], 0.5F, "case"); }});
}

/// 2 sequences of 2 heads, longer than a tile of the kernels and not a whole number of tiles. The
/// scale keeps sums of many terms near the magnitude of what is added up.
void add_fused_attention_cases(OperandMaker& make, std::vector<OpCase>& cases) {
  constexpr float scale = 1.0F / 32.0F;
  const std::int64_t length = make.width() + 32;
  const DType dtype = make.numbers({}).dtype;
  const std::int64_t size =
      fits_fused_attention(dtype, length, make.width()) ? make.width() : make.width() / 2;
  const Shape heads{4, length, size};
  const Shape merged{2 * length, 2 * size};
  const Shape probabilities{4, length, length};
  const Shape rows{2 * length, 6 * size};
  cases.push_back({&fused_attention_forward_op,
                   {make.numbers(probabilities), make.numbers(merged), make.numbers(heads),
                    make.numbers(heads), make.numbers(heads)},
                   [](Stream& s, Views v) {
                     fused_attention_forward(s, {v[0], v[1]}, {v[2], v[3], v[4]}, scale, "case");
                   }});
  cases.push_back({&fused_attention_forward_op,
                   {make.numbers(probabilities), make.numbers(merged), make.numbers(rows)},
                   [](Stream& s, Views v) {
                     fused_attention_forward(s, {v[0], v[1]}, {v[2], {}, {}}, scale, "case");
                   }});
  cases.push_back({&fused_attention_backward_op,
                   {make.numbers(heads), make.numbers(merged), make.numbers(merged),
                    make.numbers(probabilities), make.numbers(heads), make.numbers(heads),
                    make.numbers(heads), make.numbers(heads), make.numbers(heads)},
                   [](Stream& s, Views v) {
                     fused_attention_backward(s, {v[0], v[7], v[8]}, v[1], {v[3], v[2]},
                                              {v[4], v[5], v[6]}, scale, "case");
                   }});
  cases.push_back({&fused_attention_backward_op,
                   {make.numbers(rows), make.numbers(merged), make.numbers(merged),
                    make.numbers(probabilities), make.numbers(rows)},
                   [](Stream& s, Views v) {
                     fused_attention_backward(s, {v[0], {}, {}}, v[1], {v[3], v[2]}, {v[4], {}, {}},
                                              scale, "case");
                   }});
}

/// With or without sequences packed in the rows of a batch.
void add_scan_cases(OperandMaker& make, std::vector<OpCase>& cases,
                    const std::vector<OperandContent>& borders) {
  const auto with_borders = [&](std::vector<OperandContent> operands) {
    operands.insert(operands.end(), borders.begin(), borders.end());
    return operands;
  };
  const auto borders_in = [](Views v, std::size_t at) {
    return at < v.size() ? v[at] : TensorView{};
  };
  const std::int64_t channels = make.width();
  const Shape rows{6, channels};  // 2 sequences of 3 rows
  const Shape taps{2, channels};
  const Shape bias{channels};
  cases.push_back({&causal_convolution_forward_op,
                   with_borders({make.numbers(rows), make.numbers(rows), make.numbers(taps),
                                 make.numbers(bias)}),
                   [=](Stream& s, Views v) {
                     causal_convolution_forward(s, v[0], v[1], v[2], v[3], 3, borders_in(v, 4),
                                                "case");
                   }});
  cases.push_back(
      {&causal_convolution_backward_op,
       with_borders({make.numbers(rows), make.wide_numbers(taps), make.wide_numbers(bias),
                     make.wide_numbers(rows), make.numbers(rows), make.numbers(rows),
                     make.numbers(taps), make.numbers(bias)}),
       [=](Stream& s, Views v) {
         causal_convolution_backward(s, {v[0], v[1], v[2], v[3]}, v[4], v[5], v[6], v[7], 3,
                                     borders_in(v, 8), "case");
       }});
  // The second chunk of 2 sequences: positions 1 and 2 of 3.
  const auto states = static_cast<std::int32_t>(make.width());
  const ScanParams params{2, 3, 2, 3, states, 1, 2};
  const Shape outputs{6, params.inner()};
  const Shape weights{6, 2 * std::int64_t{states}};
  const Shape steps{6, params.heads};
  const Shape heads{params.heads};
  const Shape state{2, params.heads, params.head_size, states};
  const Shape chunk_states{params.rows(), params.heads, params.head_size, states};
  cases.push_back(
      {&selective_scan_forward_op,
       with_borders({make.numbers(outputs), make.wide_numbers(state), make.wide_numbers(state),
                     make.numbers(outputs), make.numbers(weights), make.numbers(steps),
                     make.numbers(heads), make.numbers(heads), make.numbers(heads)}),
       [=](Stream& s, Views v) {
         selective_scan_forward(s, v[0], v[1], v[2],
                                {v[3], v[4], v[5], v[6], v[7], v[8], borders_in(v, 9)}, params,
                                "case");
       }});
  cases.push_back({&selective_scan_backward_op,
                   with_borders({make.numbers(outputs), make.numbers(weights), make.numbers(steps),
                                 make.wide_numbers(heads), make.wide_numbers(heads),
                                 make.wide_numbers(heads), make.wide_numbers(state),
                                 make.wide_numbers(chunk_states), make.wide_numbers(chunk_states),
                                 make.wide_numbers({3, params.rows(), params.heads}),
                                 make.numbers(outputs), make.wide_numbers(state),
                                 make.numbers(outputs), make.numbers(weights), make.numbers(steps),
                                 make.numbers(heads), make.numbers(heads), make.numbers(heads)}),
                   [=](Stream& s, Views v) {
                     selective_scan_backward(
                         s, {v[0], v[1], v[2], v[3], v[4], v[5], v[6]}, {v[7], v[8], v[9]}, v[10],
                         v[11], {v[12], v[13], v[14], v[15], v[16], v[17], borders_in(v, 18)},
                         params, "case");
                   }});
}

void add_mamba_cases(OperandMaker& make, std::vector<OpCase>& cases) {
  add_scan_cases(make, cases, {});
  // A border inside of each row, and padding.
  add_scan_cases(make, cases,
                 {operand_content(Shape{2, 3}, std::vector<std::int32_t>{0, 2, 3, 0, 1, 3})});
  const Shape shape{3, make.width()};
  cases.push_back({&gate_forward_op,
                   {make.numbers(shape), make.numbers(shape), make.numbers(shape)},
                   [](Stream& s, Views v) { gate_forward(s, v[0], v[1], v[2], "case"); }});
  cases.push_back(
      {&gate_backward_op,
       {make.numbers(shape), make.numbers(shape), make.numbers(shape), make.numbers(shape),
        make.numbers(shape)},
       [](Stream& s, Views v) { gate_backward(s, v[0], v[1], v[2], v[3], v[4], "case"); }});
}

}  // namespace

void add_variant_op_cases(OperandMaker& make, std::vector<OpCase>& cases) {
  add_attention_cases(make, cases);
  add_fused_attention_cases(make, cases);
  add_mamba_cases(make, cases);
}

}  // namespace cgconform::workloads

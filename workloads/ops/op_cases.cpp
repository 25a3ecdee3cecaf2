#include "workloads/ops/op_cases.hpp"

#include "workloads/ops/attention.hpp"
#include "workloads/ops/dropout.hpp"
#include "workloads/ops/elementwise.hpp"
#include "workloads/ops/embedding_and_loss.hpp"
#include "workloads/ops/fill.hpp"
#include "workloads/ops/gemm.hpp"
#include "workloads/ops/gradient_norm.hpp"
#include "workloads/ops/layer_norm.hpp"
#include "workloads/ops/op_case_maker.hpp"
#include "workloads/ops/optimizer.hpp"
#include "workloads/ops/verification.hpp"

namespace cgconform::workloads {
namespace {

void add_gemm_cases(OperandMaker& make, std::vector<OpCase>& cases) {
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      const std::int64_t k = 4;
      const std::int64_t n = make.width();
      const Shape a = transpose_a ? Shape{2, k, 3} : Shape{2, 3, k};
      const Shape b = transpose_b ? Shape{2, n, k} : Shape{2, k, n};
      const std::vector<OperandContent> operands{make.numbers({2, 3, n}), make.numbers(a),
                                                 make.numbers(b)};
      const std::vector<OperandContent> wide{make.wide_numbers({2, 3, n}), operands[1],
                                             operands[2]};
      cases.push_back({&gemm_op, operands, [=](Stream& s, Views v) {
                         gemm(s, v[0], v[1], transpose_a, v[2], transpose_b, "case", 0.5F);
                       }});
      cases.push_back({&gemm_op, wide, [=](Stream& s, Views v) {
                         gemm(s, v[0], v[1], transpose_a, v[2], transpose_b, "case", 0.5F);
                       }});
      cases.push_back({&gemm_accumulate_op, wide, [=](Stream& s, Views v) {
                         gemm_accumulate(s, v[0], v[1], transpose_a, v[2], transpose_b, "case");
                       }});
      if (transpose_a) continue;
      cases.push_back({&gemm_bias_op,
                       {make.numbers({3, n}), make.numbers({3, k}),
                        make.numbers(transpose_b ? Shape{n, k} : Shape{k, n}), make.numbers({n}),
                        make.numbers({3, n})},
                       [=](Stream& s, Views v) {
                         gemm_bias(s, v[0], v[1], false, v[2], transpose_b, v[3], "case", v[4]);
                       }});
    }
  }
}

void add_elementwise_cases(OperandMaker& make, std::vector<OpCase>& cases) {
  const Shape shape{3, make.width()};
  const auto three = [&] {
    return std::vector{make.numbers(shape), make.numbers(shape), make.numbers(shape)};
  };
  const auto two = [&] { return std::vector{make.numbers(shape), make.numbers(shape)}; };
  cases.push_back({&add_op, three(), [](Stream& s, Views v) { add(s, v[0], v[1], v[2], "case"); }});
  cases.push_back(
      {&accumulate_op, two(), [](Stream& s, Views v) { accumulate(s, v[0], v[1], "case"); }});
  cases.push_back({&scale_op, {make.numbers(shape)}, [](Stream& s, Views v) {
                     scale(s, v[0], 0.25F, "case");
                   }});
  cases.push_back(
      {&axpy_op, two(), [](Stream& s, Views v) { axpy(s, v[0], -2.0F, v[1], "case"); }});
  cases.push_back({&add_bias_op,
                   {make.numbers(shape), make.numbers({make.width()})},
                   [](Stream& s, Views v) { add_bias(s, v[0], v[1], "case"); }});
  cases.push_back({&bias_grad_op,
                   {make.wide_numbers({make.width()}), make.numbers(shape)},
                   [](Stream& s, Views v) { bias_grad(s, v[0], v[1], "case"); }});
  cases.push_back(
      {&bias_grads_op,
       {make.wide_numbers({make.width()}), make.numbers(shape), make.wide_numbers({7}),
        make.numbers({6, 7})},
       [](Stream& s, Views v) {
         bias_grads(s, std::array{BiasGradient{v[0], v[1]}, BiasGradient{v[2], v[3]}}, "case");
       }});
  cases.push_back({&cast_op,
                   {make.wide_numbers(shape), make.numbers(shape)},
                   [](Stream& s, Views v) { cast(s, v[0], v[1], "case"); }});
  cases.push_back({&cast_op,
                   {make.numbers(shape), make.wide_numbers(shape)},
                   [](Stream& s, Views v) { cast(s, v[0], v[1], "case"); }});
  cases.push_back(
      {&gelu_forward_op, two(), [](Stream& s, Views v) { gelu_forward(s, v[0], v[1], "case"); }});
  cases.push_back({&gelu_backward_op, three(),
                   [](Stream& s, Views v) { gelu_backward(s, v[0], v[1], v[2], "case"); }});
}

void add_layer_norm_cases(OperandMaker& make, std::vector<OpCase>& cases) {
  const Shape shape{3, make.width()};
  const Shape rows{3};
  const Shape columns{make.width()};
  cases.push_back({&layer_norm_forward_op,
                   {make.numbers(shape), make.numbers(shape), make.wide_numbers(rows),
                    make.numbers(shape), make.numbers(columns), make.numbers(columns)},
                   [](Stream& s, Views v) {
                     layer_norm_forward(s, v[0], v[1], v[2], v[3], v[4], v[5], "case");
                   }});
  cases.push_back({&layer_norm_backward_op,
                   {make.numbers(shape), make.wide_numbers(columns), make.wide_numbers(columns),
                    make.numbers(shape), make.numbers(shape), make.positive(rows),
                    make.numbers(columns), make.numbers(shape)},
                   [](Stream& s, Views v) {
                     layer_norm_backward(s, v[0], v[1], v[2], v[3], v[4], v[5], v[6], "case", v[7]);
                   }});
}

void add_attention_cases(OperandMaker& make, std::vector<OpCase>& cases) {
  const Shape heads{4, 3, make.width()};  // 2 sequences of 2 heads
  const Shape rows{6, 6 * make.width()};  // 3 parts
  const Shape scores{2, make.width(), make.width()};
  cases.push_back({&split_heads_op,
                   {make.numbers(heads), make.numbers(rows)},
                   [](Stream& s, Views v) { split_heads(s, v[0], v[1], 2, 1, 3, "case"); }});
  cases.push_back(
      {&merge_heads_op,
       {make.numbers(rows), make.numbers(heads), make.numbers(heads), make.numbers(heads)},
       [](Stream& s, Views v) { merge_heads(s, v[0], v.subspan(1), 2, "case"); }});
  cases.push_back(
      {&split_parts_op,
       {make.numbers(rows), make.numbers(heads), make.numbers(heads), make.numbers(heads)},
       [](Stream& s, Views v) { split_parts(s, v.subspan(1), v[0], 2, "case"); }});
  cases.push_back(
      {&causal_softmax_forward_op,
       {make.numbers(scores), make.numbers(scores)},
       [](Stream& s, Views v) { causal_softmax_forward(s, v[0], v[1], 0.5F, "case"); }});
  cases.push_back(
      {&causal_softmax_backward_op,
       {make.numbers(scores), make.numbers(scores), make.numbers(scores)},
       [](Stream& s, Views v) { causal_softmax_backward(s, v[0], v[1], v[2], 0.5F, "case"); }});
}

void add_random_cases(OperandMaker& make, std::vector<OpCase>& cases) {
  const Shape shape{3, make.width()};
  const std::vector<OperandContent> dropout{make.numbers(shape), make.mask(shape), random_state(),
                                            make.numbers(shape)};
  cases.push_back({&dropout_forward_op, dropout, [](Stream& s, Views v) {
                     dropout_forward(s, v[0], v[1], v[2], v[3], 0.5F, 3, "case");
                   }});
  cases.push_back({&dropout_by_value_op, dropout, [](Stream& s, Views v) {
                     dropout_by_value(s, v[0], v[1], v[2], v[3], 0.5F, 4, "case");
                   }});
  cases.push_back(
      {&dropout_backward_op,
       {make.numbers(shape), make.numbers(shape), make.mask(shape)},
       [](Stream& s, Views v) { dropout_backward(s, v[0], v[1], v[2], 0.5F, "case"); }});
  cases.push_back({&fill_normal_op, {make.numbers(shape)}, [](Stream& s, Views v) {
                     fill_normal(s, v[0], {1, 2, 0.5F, 3.0F}, "case");
                   }});
  const NormalPart parts[] = {{0, 2, {1, 3, 0.5F, 3.0F}}, {4, make.width(), {1, 7, 2.0F, -1.0F}}};
  std::vector<std::uint8_t> table(sizeof(parts));
  std::memcpy(table.data(), parts, sizeof(parts));
  cases.push_back(
      {&fill_normal_parts_op,
       {make.numbers(shape), operand_content(Shape{std::int64_t{sizeof(parts)}}, table)},
       [](Stream& s, Views v) { fill_normal_parts(s, v[0], v[1], "case"); }});
  cases.push_back({&fill_uniform_op, {make.numbers(shape)}, [](Stream& s, Views v) {
                     fill_uniform(s, v[0], {1, 2, -1.0F, 3.0F}, "case");
                   }});
  cases.push_back({&fill_tokens_op, {make.indices(7, 100)}, [](Stream& s, Views v) {
                     fill_tokens(s, v[0], {1, 2, 31}, "case");
                   }});
  cases.push_back(
      {&poison_op, {make.numbers(shape)}, [](Stream& s, Views v) { poison(s, v[0], "case"); }});
}

void add_embedding_and_loss_cases(OperandMaker& make, std::vector<OpCase>& cases) {
  const std::int64_t hidden = make.width();
  const Shape output{6, hidden};
  const Shape logits{6, make.width()};
  cases.push_back(
      {&embedding_forward_op,
       {make.numbers(output), make.indices(6, 4), make.numbers({4, hidden}),
        make.numbers({2, hidden})},
       [](Stream& s, Views v) { embedding_forward(s, v[0], v[1], v[2], v[3], "case"); }});
  cases.push_back(
      {&embedding_backward_op,
       {make.wide_numbers({4, hidden}), make.wide_numbers({2, hidden}), make.indices(6, 4),
        make.numbers(output)},
       [](Stream& s, Views v) { embedding_backward(s, v[0], v[1], v[2], v[3], "case"); }});
  cases.push_back(
      {&cross_entropy_forward_op,
       {make.wide_numbers({}), make.wide_numbers(logits), make.numbers(logits), make.indices(6, 5),
        make.loss_mask(6)},
       [](Stream& s, Views v) { cross_entropy_forward(s, v[0], v[1], v[2], v[3], v[4], "case"); }});
  cases.push_back({&cross_entropy_backward_op,
                   {make.numbers(logits), make.positive(logits), make.indices(6, 5),
                    make.loss_mask(6), make.positive({})},
                   [](Stream& s, Views v) {
                     cross_entropy_backward(s, v[0], v[1], v[2], v[3], v[4], 0.5F, "case");
                   }});
}

void add_optimizer_cases(OperandMaker& make, std::vector<OpCase>& cases) {
  const Shape shape{make.width() + 2};
  const OperandContent step = scalar(std::int64_t{3});
  const OperandContent no_overflow = scalar(0.0F);
  cases.push_back(
      {&sgd_step_op,
       {make.wide_numbers(shape), make.wide_numbers(shape), make.wide_numbers(shape),
        make.positive({}), no_overflow},
       [](Stream& s, Views v) { sgd_step(s, v[0], v[1], v[2], v[3], v[4], {}, "case"); }});
  cases.push_back({&adam_step_op,
                   {make.wide_numbers(shape), make.wide_numbers(shape), make.positive(shape),
                    make.wide_numbers(shape), make.positive({}), step, no_overflow},
                   [](Stream& s, Views v) {
                     adam_step(s, v[0], v[1], v[2], v[3], v[4], v[5], v[6], {}, "case");
                   }});
  cases.push_back({&advance_step_op, {step, no_overflow}, [](Stream& s, Views v) {
                     advance_step(s, v[0], v[1], "case");
                   }});
  const OperandContent grads = operand_content(Shape{3}, std::vector<float>{1.0F, -2.0F, 3.0F});
  cases.push_back({&unscale_gradients_op,
                   {grads, no_overflow, scalar(4.0F)},
                   [](Stream& s, Views v) { unscale_gradients(s, v[0], v[1], v[2], "case"); }});
  cases.push_back({&update_loss_scale_op,
                   {scalar(64.0F), scalar(std::int64_t{5}), no_overflow},
                   [](Stream& s, Views v) { update_loss_scale(s, v[0], v[1], v[2], {}, "case"); }});
}

void add_clipping_cases(OperandMaker& make, std::vector<OpCase>& cases) {
  const std::int64_t width = make.width();
  const std::array parts{GradientPart{0, 2}, GradientPart{3, width}, GradientPart{width + 3, 0}};
  std::vector<std::uint8_t> table(sizeof(parts));
  std::memcpy(table.data(), parts.data(), sizeof(parts));
  const OperandContent sums = operand_content(Shape{3}, std::vector<double>(3));
  const auto table_bytes = static_cast<std::int64_t>(sizeof(parts));
  cases.push_back(
      {&square_sums_op,
       {sums, make.wide_numbers({width + 3}), operand_content(Shape{table_bytes}, table)},
       [](Stream& s, Views v) { square_sums(s, v[0], v[1], v[2], "case"); }});
  cases.push_back({&clip_factor_op,
                   {scalar(0.0), scalar(0.0), scalar(6.25), scalar(0.0F)},
                   [](Stream& s, Views v) { clip_factor(s, v[0], v[1], v[2], v[3], {}, "case"); }});
  cases.push_back({&scale_by_op,
                   {make.wide_numbers({3, width}), scalar(0.4)},
                   [](Stream& s, Views v) { scale_by(s, v[0], v[1], "case"); }});
}

void add_verification_cases(OperandMaker& make, std::vector<OpCase>& cases) {
  const Shape shape{3, make.width()};
  const Shape outcome_shape{std::int64_t{sizeof(CompareOutcome)}};
  const OperandContent outcome =
      operand_content(outcome_shape, std::vector<std::uint8_t>(sizeof(CompareOutcome)));
  cases.push_back({&copies_op, {make.numbers(shape), make.numbers(shape)}, [](Stream& s, Views v) {
                     copies(s, std::array{CopyPair{v[0], v[1]}}, "case");
                   }});
  cases.push_back({&checksum_op,
                   {operand_content(Shape{1}, std::vector<std::uint64_t>{0}), make.numbers(shape)},
                   [](Stream& s, Views v) { checksum(s, v[0], v[1], "case"); }});
  cases.push_back({&checksums_op,
                   {operand_content(Shape{1}, std::vector<std::uint64_t>{0}), make.numbers(shape)},
                   [](Stream& s, Views v) { checksums(s, v[0], v.subspan(1), "case"); }});
  cases.push_back({&compare_op,
                   {outcome, make.numbers(shape), make.numbers(shape)},
                   [](Stream& s, Views v) { compare(s, v[0], v[1], v[2], {}, "case"); }});
  cases.push_back({&compare_pairs_op,
                   {outcome, make.numbers(shape), make.numbers(shape)},
                   [](Stream& s, Views v) {
                     compare_pairs(s, v[0], std::array{TensorPair{v[1], v[2]}}, {}, "case");
                   }});
}

}  // namespace

std::vector<OpCase> op_cases(DType floating, std::int64_t width) {
  OperandMaker make(floating, width);
  std::vector<OpCase> cases;
  add_gemm_cases(make, cases);
  add_elementwise_cases(make, cases);
  add_layer_norm_cases(make, cases);
  add_attention_cases(make, cases);
  add_random_cases(make, cases);
  add_embedding_and_loss_cases(make, cases);
  add_expert_op_cases(make, cases);
  add_variant_op_cases(make, cases);
  add_optimizer_cases(make, cases);
  add_clipping_cases(make, cases);
  add_fp8_op_cases(make, cases);
  add_verification_cases(make, cases);
  return cases;
}

}  // namespace cgconform::workloads

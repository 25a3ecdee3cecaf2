#include "tests/workloads/op_cases.hpp"

#include <array>
#include <cstring>
#include <initializer_list>
#include <utility>

#include "tests/workloads/host_tensor.hpp"
#include "workloads/ops/attention.hpp"
#include "workloads/ops/dropout.hpp"
#include "workloads/ops/elementwise.hpp"
#include "workloads/ops/embedding_and_loss.hpp"
#include "workloads/ops/fill.hpp"
#include "workloads/ops/gemm.hpp"
#include "workloads/ops/layer_norm.hpp"
#include "workloads/ops/optimizer.hpp"
#include "workloads/ops/verification.hpp"

namespace cgconform::workloads::test {
namespace {

template <typename T>
OperandContent content(const HostTensor<T>& tensor) {
  OperandContent result{dtype_of<T>(), tensor.shape, {}};
  result.bytes.resize(tensor.size() * sizeof(T));
  std::memcpy(result.bytes.data(), tensor.values.data(), result.bytes.size());
  return result;
}

/// Makes operands of one floating type from one stream of random numbers.
class Maker {
 public:
  explicit Maker(DType floating) : floating_(floating) {}

  OperandContent numbers(const Shape& shape) {
    const HostTensor<double> values = random_tensor<double>(random_, shape);
    return floating_ == DType::fp64 ? content(values) : content(narrowed(values));
  }
  /// Numbers above 0.5, for operands that are divided by or that a root is taken of.
  OperandContent positive(const Shape& shape) {
    HostTensor<double> values = random_tensor<double>(random_, shape);
    for (double& value : values.values) value = value * value + 0.5;
    for (double& value : values.values) value = double{static_cast<float>(value)};
    return floating_ == DType::fp64 ? content(values) : content(narrowed(values));
  }
  OperandContent indices(std::int64_t count, std::int64_t bound) {
    return content(random_indices(random_, count, bound));
  }
  OperandContent mask(const Shape& shape) {
    HostTensor<std::uint8_t> values(shape);
    for (std::uint8_t& value : values.values) value = random_() % 2 == 0 ? 0 : 1;
    return content(values);
  }
  OperandContent loss_mask(std::int64_t rows) {
    HostTensor<double> values(Shape{rows}, 1.0);
    values[0] = 0.0;
    return floating_ == DType::fp64 ? content(values) : content(narrowed(values));
  }

 private:
  static HostTensor<float> narrowed(const HostTensor<double>& values) {
    return {values.shape, std::vector<float>(values.values.begin(), values.values.end())};
  }

  DType floating_;
  Random random_{11};
};

OperandContent random_state() {
  return content(HostTensor<std::uint64_t>(Shape{2}, std::vector<std::uint64_t>{5, 9}));
}

using Views = std::span<const TensorView>;

void add_gemm_cases(Maker& make, std::vector<OpCase>& cases) {
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      const Shape a = transpose_a ? Shape{2, 4, 3} : Shape{2, 3, 4};
      const Shape b = transpose_b ? Shape{2, 5, 4} : Shape{2, 4, 5};
      const std::vector<OperandContent> operands{make.numbers({2, 3, 5}), make.numbers(a),
                                                 make.numbers(b)};
      cases.push_back({&gemm_op, operands, [=](Stream& s, Views v) {
                         gemm(s, v[0], v[1], transpose_a, v[2], transpose_b, "case", 0.5F);
                       }});
      cases.push_back({&gemm_accumulate_op, operands, [=](Stream& s, Views v) {
                         gemm_accumulate(s, v[0], v[1], transpose_a, v[2], transpose_b, "case");
                       }});
    }
  }
}

void add_elementwise_cases(Maker& make, std::vector<OpCase>& cases) {
  const Shape shape{3, 5};
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
  cases.push_back({&add_bias_op, {make.numbers(shape), make.numbers({5})}, [](Stream& s, Views v) {
                     add_bias(s, v[0], v[1], "case");
                   }});
  cases.push_back({&bias_grad_op, {make.numbers({5}), make.numbers(shape)}, [](Stream& s, Views v) {
                     bias_grad(s, v[0], v[1], "case");
                   }});
  cases.push_back(
      {&gelu_forward_op, two(), [](Stream& s, Views v) { gelu_forward(s, v[0], v[1], "case"); }});
  cases.push_back({&gelu_backward_op, three(),
                   [](Stream& s, Views v) { gelu_backward(s, v[0], v[1], v[2], "case"); }});
}

void add_layer_norm_cases(Maker& make, std::vector<OpCase>& cases) {
  const Shape shape{3, 5};
  const Shape rows{3};
  const Shape columns{5};
  cases.push_back({&layer_norm_forward_op,
                   {make.numbers(shape), make.numbers(shape), make.numbers(rows),
                    make.numbers(shape), make.numbers(columns), make.numbers(columns)},
                   [](Stream& s, Views v) {
                     layer_norm_forward(s, v[0], v[1], v[2], v[3], v[4], v[5], "case");
                   }});
  cases.push_back(
      {&layer_norm_backward_op,
       {make.numbers(shape), make.numbers(columns), make.numbers(columns), make.numbers(shape),
        make.numbers(shape), make.positive(rows), make.numbers(columns)},
       [](Stream& s, Views v) {
         layer_norm_backward(s, v[0], v[1], v[2], v[3], v[4], v[5], v[6], "case");
       }});
}

void add_attention_cases(Maker& make, std::vector<OpCase>& cases) {
  const Shape heads{4, 3, 2};  // 2 sequences of 2 heads
  const Shape rows{6, 12};     // 3 parts
  const Shape scores{2, 4, 4};
  cases.push_back({&split_heads_op,
                   {make.numbers(heads), make.numbers(rows)},
                   [](Stream& s, Views v) { split_heads(s, v[0], v[1], 2, 1, 3, "case"); }});
  cases.push_back(
      {&merge_heads_op,
       {make.numbers(rows), make.numbers(heads), make.numbers(heads), make.numbers(heads)},
       [](Stream& s, Views v) { merge_heads(s, v[0], v.subspan(1), 2, "case"); }});
  cases.push_back(
      {&causal_softmax_forward_op,
       {make.numbers(scores), make.numbers(scores)},
       [](Stream& s, Views v) { causal_softmax_forward(s, v[0], v[1], 0.5F, "case"); }});
  cases.push_back(
      {&causal_softmax_backward_op,
       {make.numbers(scores), make.numbers(scores), make.numbers(scores)},
       [](Stream& s, Views v) { causal_softmax_backward(s, v[0], v[1], v[2], 0.5F, "case"); }});
}

void add_random_cases(Maker& make, std::vector<OpCase>& cases) {
  const Shape shape{3, 5};
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
  cases.push_back({&fill_uniform_op, {make.numbers(shape)}, [](Stream& s, Views v) {
                     fill_uniform(s, v[0], {1, 2, -1.0F, 3.0F}, "case");
                   }});
  cases.push_back({&fill_tokens_op, {make.indices(7, 100)}, [](Stream& s, Views v) {
                     fill_tokens(s, v[0], {1, 2, 31}, "case");
                   }});
  cases.push_back(
      {&poison_op, {make.numbers(shape)}, [](Stream& s, Views v) { poison(s, v[0], "case"); }});
}

void add_embedding_and_loss_cases(Maker& make, std::vector<OpCase>& cases) {
  const Shape output{6, 3};
  const Shape logits{6, 5};
  cases.push_back(
      {&embedding_forward_op,
       {make.numbers(output), make.indices(6, 4), make.numbers({4, 3}), make.numbers({2, 3})},
       [](Stream& s, Views v) { embedding_forward(s, v[0], v[1], v[2], v[3], "case"); }});
  cases.push_back(
      {&embedding_backward_op,
       {make.numbers({4, 3}), make.numbers({2, 3}), make.indices(6, 4), make.numbers(output)},
       [](Stream& s, Views v) { embedding_backward(s, v[0], v[1], v[2], v[3], "case"); }});
  cases.push_back(
      {&cross_entropy_forward_op,
       {make.numbers({}), make.numbers(logits), make.numbers(logits), make.indices(6, 5),
        make.loss_mask(6)},
       [](Stream& s, Views v) { cross_entropy_forward(s, v[0], v[1], v[2], v[3], v[4], "case"); }});
  cases.push_back(
      {&cross_entropy_backward_op,
       {make.numbers(logits), make.positive(logits), make.indices(6, 5), make.loss_mask(6)},
       [](Stream& s, Views v) {
         cross_entropy_backward(s, v[0], v[1], v[2], v[3], 0.5F, "case");
       }});
}

void add_optimizer_cases(Maker& make, std::vector<OpCase>& cases) {
  const Shape shape{7};
  const HostTensor<std::int64_t> step(Shape{}, std::int64_t{3});
  cases.push_back(
      {&sgd_step_op,
       {make.numbers(shape), make.numbers(shape), make.numbers(shape), make.positive({})},
       [](Stream& s, Views v) { sgd_step(s, v[0], v[1], v[2], v[3], {}, "case"); }});
  cases.push_back(
      {&adam_step_op,
       {make.numbers(shape), make.numbers(shape), make.positive(shape), make.numbers(shape),
        make.positive({}), content(step)},
       [](Stream& s, Views v) { adam_step(s, v[0], v[1], v[2], v[3], v[4], v[5], {}, "case"); }});
  cases.push_back({&advance_step_op, {content(step)}, [](Stream& s, Views v) {
                     advance_step(s, v[0], "case");
                   }});
}

void add_verification_cases(Maker& make, std::vector<OpCase>& cases) {
  const Shape shape{3, 5};
  const HostTensor<std::uint8_t> outcome(Shape{std::int64_t{sizeof(CompareOutcome)}});
  cases.push_back({&checksum_op,
                   {content(HostTensor<std::uint64_t>(Shape{1})), make.numbers(shape)},
                   [](Stream& s, Views v) { checksum(s, v[0], v[1], "case"); }});
  cases.push_back({&compare_op,
                   {content(outcome), make.numbers(shape), make.numbers(shape)},
                   [](Stream& s, Views v) { compare(s, v[0], v[1], v[2], {}, "case"); }});
}

}  // namespace

std::vector<OpCase> op_cases(DType floating) {
  Maker make(floating);
  std::vector<OpCase> cases;
  add_gemm_cases(make, cases);
  add_elementwise_cases(make, cases);
  add_layer_norm_cases(make, cases);
  add_attention_cases(make, cases);
  add_random_cases(make, cases);
  add_embedding_and_loss_cases(make, cases);
  add_optimizer_cases(make, cases);
  add_verification_cases(make, cases);
  return cases;
}

}  // namespace cgconform::workloads::test

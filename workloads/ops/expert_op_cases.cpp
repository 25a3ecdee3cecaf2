#include "workloads/ops/expert_rows.hpp"
#include "workloads/ops/op_case_maker.hpp"
#include "workloads/ops/router.hpp"

namespace cgconform::workloads {
namespace {

void add_router_cases(OperandMaker& make, std::vector<OpCase>& cases) {
  const std::int64_t count = make.width();
  const Shape places{6, 2};
  const Shape scores{6, count};
  const Shape shape{3, count};
  const auto experts = [&] { return make.index_table(places, count); };
  const auto load = [&] { return make.indices(count, 7); };
  cases.push_back(
      {&top_k_router_forward_op,
       {make.wide_numbers(places), experts(), make.wide_numbers(scores), make.wide_numbers(scores),
        make.wide_numbers({count})},
       [](Stream& s, Views v) { top_k_router_forward(s, v[0], v[1], v[2], v[3], v[4], "case"); }});
  cases.push_back({&top_k_router_backward_op,
                   {make.numbers(scores), make.wide_numbers(places), experts(),
                    make.wide_numbers(scores), load(), make.positive({})},
                   [](Stream& s, Views v) {
                     top_k_router_backward(s, v[0], v[1], v[2], v[3], v[4], v[5], 0.25F, "case");
                   }});
  cases.push_back({&count_load_op, {load(), experts()}, [](Stream& s, Views v) {
                     count_load(s, v[0], v[1], "case");
                   }});
  cases.push_back(
      {&load_balancing_loss_op,
       {make.wide_numbers({}), load(), make.wide_numbers(scores)},
       [](Stream& s, Views v) { load_balancing_loss(s, v[0], v[1], v[2], 0.25F, "case"); }});
  cases.push_back({&load_gradient_op,
                   {make.wide_numbers({count}), load(), make.positive({})},
                   [](Stream& s, Views v) {
                     load_gradient(s, v[0], v[1], v[2], {0.25F, 3.0F}, "case");
                   }});
  cases.push_back(
      {&jitter_forward_op,
       {make.numbers(shape), make.numbers(shape), random_state(), make.numbers(shape)},
       [](Stream& s, Views v) { jitter_forward(s, v[0], v[1], v[2], v[3], {0.25F}, "case"); }});
  cases.push_back({&multiply_op,
                   {make.numbers(shape), make.numbers(shape), make.numbers(shape)},
                   [](Stream& s, Views v) { multiply(s, v[0], v[1], v[2], "case"); }});
}

void add_expert_row_cases(OperandMaker& make, std::vector<OpCase>& cases) {
  constexpr std::int64_t experts = 4;
  constexpr std::int32_t top_k = 2;
  const Shape places{6, top_k};
  const Shape tokens{6, make.width()};
  const Shape rows{8, make.width()};
  for (const std::int32_t capacity : {2, 0}) {
    cases.push_back({&assign_slots_op,
                     {make.index_table(places, 8), make.indices(8, 12), make.indices(experts, 9),
                      make.index_table(places, experts), make.indices(experts, 9)},
                     [=](Stream& s, Views v) {
                       assign_slots(s, v[0], v[1], v[2], v[3], v[4], capacity, "case");
                     }});
  }
  const std::vector<OperandContent> dispatched{make.numbers(rows), make.numbers(tokens),
                                               make.indices(8, 14), make.wide_numbers(places)};
  const std::vector<OperandContent> combined{make.numbers(tokens), make.numbers(rows),
                                             make.index_table(places, 9),
                                             make.wide_numbers(places)};
  cases.push_back({&dispatch_rows_op, dispatched, [](Stream& s, Views v) {
                     dispatch_rows(s, v[0], v[1], v[2], v[3], top_k, "case");
                   }});
  cases.push_back({&combine_rows_op, combined,
                   [](Stream& s, Views v) { combine_rows(s, v[0], v[1], v[2], v[3], "case"); }});
  cases.push_back({&dispatch_rows_op,
                   {dispatched.begin(), dispatched.end() - 1},
                   [](Stream& s, Views v) { dispatch_rows(s, v[0], v[1], v[2], {}, 1, "case"); }});
  cases.push_back({&combine_rows_op,
                   {combined.begin(), combined.end() - 1},
                   [](Stream& s, Views v) { combine_rows(s, v[0], v[1], v[2], {}, "case"); }});
  cases.push_back(
      {&combine_weights_backward_op,
       {make.wide_numbers(places), make.numbers(tokens), make.numbers(rows),
        make.index_table(places, 9)},
       [](Stream& s, Views v) { combine_weights_backward(s, v[0], v[1], v[2], v[3], "case"); }});
}

}  // namespace

void add_expert_op_cases(OperandMaker& make, std::vector<OpCase>& cases) {
  add_router_cases(make, cases);
  add_expert_row_cases(make, cases);
}

}  // namespace cgconform::workloads

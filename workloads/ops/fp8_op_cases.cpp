#include <array>
#include <cstdint>
#include <vector>

#include "workloads/ops/fp8.hpp"
#include "workloads/ops/op_case_maker.hpp"

namespace cgconform::workloads {
namespace {

OperandContent bytes_of_shape(const Shape& shape, std::uint8_t first) {
  std::vector<std::uint8_t> values(static_cast<std::size_t>(shape.elements()));
  // Small numbers of both signs in either format.
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<std::uint8_t>((first + i * 5) % 0x40 + (i % 3 == 0 ? 0x80 : 0));
  }
  return operand_content(shape, values);
}

/// Powers of two of both signs in either format: their products are summed up without rounding, in
/// any order.
OperandContent powers_of_shape(const Shape& shape) {
  constexpr std::array<std::uint8_t, 4> codes{0x38, 0xB8, 0x40, 0x30};
  std::vector<std::uint8_t> values(static_cast<std::size_t>(shape.elements()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = codes.at((i + i / 7) % codes.size());
  return operand_content(shape, values);
}

}  // namespace

void add_fp8_op_cases(OperandMaker& make, std::vector<OpCase>& cases) {
  const std::int64_t width = make.width();
  const OperandContent rows = bytes_of_shape({3, width}, 1);
  const OperandContent columns = bytes_of_shape({width, 3}, 2);
  for (const float amax : {0.5F, 64.0F}) {
    cases.push_back({&fp8_amax_op,
                     {scalar(amax), make.numbers({3, width})},
                     [](Stream& s, Views v) { fp8_amax(s, v[0], v[1], "case"); }});
  }
  for (const EightBitFormat format : {EightBitFormat::e4m3, EightBitFormat::e5m2}) {
    // A magnitude below and one above those of the matrix.
    for (const float amax : {0.5F, 64.0F}) {
      cases.push_back({&fp8_quantise_op,
                       {rows, columns, scalar(amax), make.numbers({3, width}), scalar(300.0F)},
                       [=](Stream& s, Views v) {
                         fp8_quantise(s, {v[0], v[1]}, v[2], v[3], v[4], format, "case");
                       }});
    }
    for (const float cached : {0.0F, 1.0F}) {
      cases.push_back(
          {&fp8_quantise_weight_op,
           {rows, columns, scalar(0.5F), make.numbers({3, width}), scalar(0.25F), scalar(cached),
            scalar(2.0F)},
           [=](Stream& s, Views v) {
             fp8_quantise_weight(s, {v[0], v[1]}, v[2], v[3], v[4], v[5], v[6], format, "case");
           }});
      cases.push_back({&fp8_current_scale_op,
                       {scalar(1.0F), scalar(1.0F), make.numbers({3, width}), scalar(cached)},
                       [=](Stream& s, Views v) {
                         fp8_current_scale(s, v[0], v[1], v[2], v[3], format, "case");
                       }});
    }
    for (const float amax : {0.0F, 3.0F}) {
      cases.push_back(
          {&fp8_scale_of_amax_op,
           {scalar(1.0F), scalar(1.0F), scalar(amax)},
           [=](Stream& s, Views v) { fp8_scale_of_amax(s, v[0], v[1], v[2], format, "case"); }});
    }
    // Odd extents, and whole tiles of the units that multiply in 8 bits.
    std::vector<std::vector<OperandContent>> products{
        {make.numbers({3, 2}), rows, bytes_of_shape({2, width}, 7), scalar(0.5F), scalar(2.0F)}};
    if (width % 16 == 0) {
      products.push_back({make.numbers({32, 16}), powers_of_shape({32, width}),
                          powers_of_shape({16, width}), scalar(0.5F), scalar(0.25F)});
    }
    for (const std::vector<OperandContent>& product : products) {
      cases.push_back({&fp8_gemm_op, product, [=](Stream& s, Views v) {
                         fp8_gemm(s, v[0], v[1], v[2], v[3], v[4], format, EightBitFormat::e4m3,
                                  "case");
                       }});
      cases.push_back({&fp8_gemm_accumulate_op, product, [=](Stream& s, Views v) {
                         fp8_gemm_accumulate(s, v[0], v[1], v[2], v[3], v[4], format,
                                             EightBitFormat::e4m3, "case");
                       }});
    }
  }
  const auto three = [](float a, float b, float c) {
    return operand_content(Shape{3}, std::vector<float>{a, b, c});
  };
  // All tensors, and all but the first.
  for (const bool most_recent : {false, true}) {
    const std::int32_t first = most_recent ? 1 : 0;
    cases.push_back(
        {&fp8_update_scales_op,
         {three(1, 2, 4), operand_content(Shape{3, 2}, std::vector<float>{1, 0, 0.5F, 0, 0.25F, 0}),
          operand_content(Shape{2, 3}, std::vector<float>{3, 0, 7, 1, 0, 9}), three(5, 6, 7),
          scalar(1.0F), three(448, 448, 57344)},
         [most_recent, first](Stream& s, Views v) {
           fp8_update_scales(
               s, {v[0], v[1], v[2], v[3], v[4], v[5]},
               {.tensors = 3, .first = first, .count = 3 - first, .most_recent = most_recent},
               "case");
         }});
  }
}

}  // namespace cgconform::workloads

#include "workloads/device/reference/message.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "workloads/device/errors.hpp"

namespace cgconform::workloads::reference {
namespace {

constexpr std::array<std::string_view, 7> kind_names{
    "send", "all_reduce", "broadcast", "all_gather", "reduce_scatter", "exchange", "goodbye"};
constexpr std::array<std::string_view, 3> reduce_names{"sum", "max", "min"};

/// How elements are stored and what they are computed in.
template <typename T>
struct Plain {
  using Stored = T;
  static T load(T value) { return value; }
  static T store(T value) { return value; }
};

struct Bf16 {
  using Stored = std::uint16_t;
  static float load(std::uint16_t value) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(value) << 16U);
  }
  static std::uint16_t store(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    if (std::isnan(value)) return static_cast<std::uint16_t>((bits >> 16U) | 0x40U);
    const std::uint32_t odd = (bits >> 16U) & 1U;
    return static_cast<std::uint16_t>((bits + 0x7fffU + odd) >> 16U);
  }
};

struct Fp16 {
  using Stored = std::uint16_t;
  static float load(std::uint16_t value) {
    const int exponent = (value >> 10U) & 0x1f;
    const auto mantissa = static_cast<float>(value & 0x3ffU);
    float magnitude = 0.0F;
    if (exponent == 0x1f) {
      magnitude = mantissa == 0.0F ? INFINITY : NAN;
    } else if (exponent == 0) {
      magnitude = std::ldexp(mantissa, -24);
    } else {
      magnitude = std::ldexp(mantissa + 1024.0F, exponent - 25);
    }
    return (value & 0x8000U) != 0 ? -magnitude : magnitude;
  }
  static std::uint16_t store(float value) {
    const auto sign = static_cast<std::uint16_t>(std::signbit(value) ? 0x8000U : 0U);
    const float magnitude = std::fabs(value);
    if (std::isnan(value)) return static_cast<std::uint16_t>(sign | 0x7e00U);
    if (magnitude >= 65520.0F) return static_cast<std::uint16_t>(sign | 0x7c00U);
    if (magnitude < 0x1p-14F) {
      // nearbyint rounds to even; 1024 units here are the smallest normal number's encoding.
      return static_cast<std::uint16_t>(
          sign | static_cast<std::uint16_t>(std::nearbyint(std::ldexp(magnitude, 24))));
    }
    const int exponent = std::ilogb(magnitude);
    // A mantissa that rounds up to 2048 carries into the exponent by the addition.
    const auto units =
        static_cast<std::uint32_t>(std::nearbyint(std::ldexp(magnitude, 10 - exponent)));
    const auto biased = static_cast<std::uint32_t>(exponent + 14);
    return static_cast<std::uint16_t>(sign | ((biased << 10U) + units));
  }
};

template <typename Value>
Value combine(Value a, Value b, ReduceOp op) {
  switch (op) {
    case ReduceOp::max:
      return std::max(a, b);
    case ReduceOp::min:
      return std::min(a, b);
    case ReduceOp::sum:
      break;
  }
  return static_cast<Value>(a + b);
}

template <typename Format>
void reduce_as(const TensorView& destination, const std::byte* source, ReduceOp op) {
  using Stored = typename Format::Stored;
  auto* out = static_cast<Stored*>(destination.data);
  for (std::int64_t index = 0; index < destination.elements(); ++index) {
    Stored in;
    std::memcpy(&in, source + index * static_cast<std::int64_t>(sizeof(Stored)), sizeof(Stored));
    out[index] = Format::store(combine(Format::load(out[index]), Format::load(in), op));
  }
}

}  // namespace

std::string_view message_kind_name(MessageKind kind) {
  return kind_names.at(static_cast<std::size_t>(kind));
}

std::string describe(const MessageHeader& header) {
  std::string text = header.captured != 0 ? "captured " : "eager ";
  text += message_kind_name(header.kind);
  if (header.kind == MessageKind::all_reduce) {
    text += fmt::format(" {}", reduce_names.at(static_cast<std::size_t>(header.reduce)));
  }
  text += fmt::format(" of {} bytes {}, message {}", header.bytes, dtype_name(header.dtype),
                      header.sequence);
  if (header.captured != 0) text += fmt::format(", replay {}", header.replay);
  return text;
}

void reduce_into(const TensorView& destination, const std::byte* source, ReduceOp op) {
  switch (destination.dtype) {
    case DType::fp32:
      return reduce_as<Plain<float>>(destination, source, op);
    case DType::fp64:
      return reduce_as<Plain<double>>(destination, source, op);
    case DType::bf16:
      return reduce_as<Bf16>(destination, source, op);
    case DType::fp16:
      return reduce_as<Fp16>(destination, source, op);
    case DType::int32:
      return reduce_as<Plain<std::int32_t>>(destination, source, op);
    case DType::int64:
      return reduce_as<Plain<std::int64_t>>(destination, source, op);
    case DType::uint64:
      return reduce_as<Plain<std::uint64_t>>(destination, source, op);
    case DType::uint8:
      return reduce_as<Plain<std::uint8_t>>(destination, source, op);
  }
}

}  // namespace cgconform::workloads::reference

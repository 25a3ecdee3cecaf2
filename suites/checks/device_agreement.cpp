#include "suites/checks/device_agreement.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "matrix/axis.hpp"
#include "matrix/built_features.hpp"
#include "matrix/enum_names.hpp"
#include "workloads/allocator/caching_allocator.hpp"
#include "workloads/device/device.hpp"
#include "workloads/device/sixteen_bit.hpp"
#include "workloads/ops/fp8.hpp"
#include "workloads/ops/op_cases.hpp"
#include "workloads/training/leg_record.hpp"

namespace cgconform::suites::checks {
namespace {

using workloads::Buffer;
using workloads::Device;
using workloads::DType;
using workloads::LegRecord;
using workloads::ObservedQuantity;
using workloads::Stream;
using workloads::TensorView;
using Bytes = std::vector<std::byte>;

/// How far apart devices may be, relative to 1 + |expected| for ops and to the largest element of
/// the tensor for training: they add up in other orders, and round 16-bit results once more.
struct AgreementRow {
  DType dtype;
  matrix::ParamsDtype params;
  double op;
  double training;
};

constexpr std::array agreement_rows{
    AgreementRow{DType::fp32, matrix::ParamsDtype::fp32, 1e-5, 1e-3},
    AgreementRow{DType::fp64, matrix::ParamsDtype::fp64, 1e-13, 1e-9},
    AgreementRow{DType::bf16, matrix::ParamsDtype::bf16, 0x1p-7, 0.1},
    AgreementRow{DType::fp16, matrix::ParamsDtype::fp16, 0x1p-10, 0.02},
};

/// Of training in 8 bits: a sum that is rounded otherwise moves a quantised number by a step of its
/// format, and on the way back such steps add up. With products disturbed by 1e-6 to 1e-3 of
/// themselves the reference device differed from itself by at most 0.05 of the largest element in
/// outputs and losses, and by at most 0.28 of a gradient's norm.
constexpr double fp8_training = 0.15;
constexpr double fp8_gradient_norm = 0.4;
/// Roundings have no direction: seen were 0.13. A factor has one.
constexpr double fp8_gradient_factor = 0.25;

/// Narrow rows and rows of whole packs of 16 bytes take other paths through kernels.
constexpr std::array<std::int64_t, 2> row_widths{5, 64};

const AgreementRow* row_of(DType dtype) {
  const auto* row = std::find_if(agreement_rows.begin(), agreement_rows.end(),
                                 [&](const AgreementRow& one) { return one.dtype == dtype; });
  return row == agreement_rows.end() ? nullptr : row;
}

template <typename T>
std::vector<double> numbers_as(const Bytes& bytes) {
  std::vector<double> numbers;
  for (std::size_t at = 0; at + sizeof(T) <= bytes.size(); at += sizeof(T)) {
    T value;
    std::memcpy(&value, bytes.data() + at, sizeof(T));
    numbers.push_back(static_cast<double>(value));
  }
  return numbers;
}

std::vector<double> numbers(const Bytes& bytes, DType dtype) {
  switch (dtype) {
    case DType::fp64:
      return numbers_as<double>(bytes);
    case DType::bf16:
      return numbers_as<workloads::BFloat16>(bytes);
    case DType::fp16:
      return numbers_as<workloads::Float16>(bytes);
    default:
      return numbers_as<float>(bytes);
  }
}

bool agree(double expected, double actual, double allowed) {
  if (std::isnan(expected) || std::isnan(actual)) return std::isnan(expected) && std::isnan(actual);
  if (std::isinf(expected) || std::isinf(actual)) return expected == actual;
  return std::abs(expected - actual) <= allowed;
}

/// What a difference is set against: 1 + |expected| of the element, the largest |expected| of the
/// tensor, or, for the norm of all differences, the norm of the tensor.
enum class Against : std::uint8_t { element, largest, norm };

double largest_of(const std::vector<double>& values) {
  double largest = 0.0;
  for (const double value : values) {
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  }
  return largest;
}

std::optional<std::string> find_difference_of_norm(const std::vector<double>& expected,
                                                   const std::vector<double>& actual,
                                                   double relative) {
  double squares = 0.0;
  double differences = 0.0;
  double along = 0.0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    squares += expected[i] * expected[i];
    along += expected[i] * actual[i];
    differences += (expected[i] - actual[i]) * (expected[i] - actual[i]);
  }
  const double norm = std::sqrt(squares);
  if (!agree(squares, along, fp8_gradient_factor * squares)) {
    return fmt::format("{} times the reference device's, {} more or less allowed", along / squares,
                       fp8_gradient_factor);
  }
  if (agree(0.0, std::sqrt(differences), relative * norm)) return std::nullopt;
  return fmt::format("differences have the norm {}, {} allowed beside the reference device's {}",
                     std::sqrt(differences), relative * norm, norm);
}

/// What is further off than `relative` times what it is set against, in words: the first element
/// that is, or the norm.
std::optional<std::string> find_difference(const std::vector<double>& expected,
                                           const std::vector<double>& actual, double relative,
                                           Against against) {
  if (expected.size() != actual.size()) return "tensors of other sizes";
  if (against == Against::norm) return find_difference_of_norm(expected, actual, relative);
  const double largest = largest_of(expected);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double scale = against == Against::largest ? largest : 1.0 + std::abs(expected[i]);
    if (agree(expected[i], actual[i], relative * scale)) continue;
    return fmt::format("element {}: {} on the reference device, {} here, {} apart allowed", i,
                       expected[i], actual[i], relative * scale);
  }
  return std::nullopt;
}

std::vector<Bytes> run_case(Device& device, const workloads::OpCase& one) {
  const std::unique_ptr<Stream> stream = device.create_stream("agreement");
  workloads::CachingAllocator allocator(device.segment_source());
  std::vector<Buffer> buffers;
  std::vector<TensorView> views;
  for (const workloads::OperandContent& operand : one.operands) {
    buffers.emplace_back(allocator, *stream, workloads::default_pool, operand.dtype, operand.shape,
                         "operand");
    stream->upload(buffers.back().view(), operand.bytes.data(), false, "operand");
    views.push_back(buffers.back().view());
  }
  one.launch(*stream, views);
  std::vector<Bytes> results;
  for (const TensorView& view : views) {
    results.emplace_back(static_cast<std::size_t>(view.bytes()));
    stream->download(results.back().data(), view);
  }
  return results;
}

CheckResult failed(std::string detail) {
  return {.verdict = Verdict::fail_numeric_mismatch, .detail = std::move(detail)};
}

/// Counts what was compared; `detail` says what disagreed first.
struct Tally {
  std::uint64_t tensors = 0;
  std::optional<std::string> detail;
};

void compare_case(Device& device, Device& reference, const workloads::OpCase& one, Tally& tally) {
  // What the comparison op writes is made of its own arithmetic.
  if (one.op->name.starts_with("compare")) return;
  const std::vector<Bytes> expected = run_case(reference, one);
  const std::vector<Bytes> actual = run_case(device, one);
  for (std::size_t i = 0; i < expected.size() && !tally.detail; ++i) {
    const DType dtype = one.operands[i].dtype;
    const AgreementRow* row = row_of(dtype);
    ++tally.tensors;
    std::optional<std::string> difference;
    if (row == nullptr) {
      if (expected[i] != actual[i]) difference = "other bytes";
    } else {
      difference = find_difference(numbers(expected[i], dtype), numbers(actual[i], dtype), row->op,
                                   Against::element);
    }
    if (difference) {
      tally.detail = fmt::format("op {}, operand {} ({}): {}", one.op->name,
                                 one.op->operands[i].name, dtype_name(dtype), *difference);
    }
  }
}

/// A kind of model, as a value of an axis makes it.
struct TrainedModel {
  std::string_view axis;
  std::string_view token;
};

/// The first ones train in every type, the others where no rounding can turn a router's choice.
/// Attention that drops nothing is another op than one that does.
constexpr std::size_t trained_in_every_type = 2;
constexpr std::array trained_models{
    TrainedModel{"model", "dense"},        TrainedModel{"dropout", "0"},
    TrainedModel{"model", "moe_dropless"}, TrainedModel{"model", "moe_drop_and_pad"},
    TrainedModel{"model", "hybrid_mamba"}, TrainedModel{"attention", "grouped:1"},
    TrainedModel{"attention", "latent"},   TrainedModel{"packing", "padded"},
    TrainedModel{"image_tokens", "2"},
};

std::span<const TrainedModel> models_trained_in(DType dtype) {
  const bool exact = dtype == DType::fp32 || dtype == DType::fp64;
  return std::span(trained_models).first(exact ? trained_models.size() : trained_in_every_type);
}

matrix::Cell training_cell(matrix::ParamsDtype dtype, const TrainedModel& model) {
  matrix::Cell cell;
  cell.config.params_dtype = dtype;
  cell.config.num_layers = 4;
  cell.config.hidden_size = 16;
  cell.config.num_attention_heads = 2;
  cell.config.seq_length = 8;
  cell.config.micro_batch_size = 2;
  cell.config.num_microbatches = 2;
  cell.config.attention_dropout = 0.1F;
  cell.config.hidden_dropout = 0.1F;
  cell.shape.vocab_size = 32;
  cell.shape.ffn_hidden_size = 32;
  cell.shape.steps = 3;
  matrix::find_axis_definition(model.axis)->parse(model.token)->apply(cell);
  return cell;
}

/// How far apart a tensor may be.
struct Allowance {
  double relative = 0.0;
  Against against = Against::largest;
};

/// A cell whose training is compared, and how far apart it may be.
struct TrainedCell {
  std::string name;
  matrix::Cell cell;
  Allowance outputs;
  Allowance gradients;
};

/// Those that the device trains.
std::vector<TrainedCell> trained_cells(matrix::TargetDevice device) {
  std::vector<TrainedCell> cells;
  for (const AgreementRow& row : agreement_rows) {
    for (const TrainedModel& model : models_trained_in(row.dtype)) {
      cells.push_back({fmt::format("{} ({}={})", dtype_name(row.dtype), model.axis, model.token),
                       training_cell(row.params, model), Allowance{row.training},
                       Allowance{row.training}});
    }
  }
  for (const auto params : {matrix::ParamsDtype::fp32, matrix::ParamsDtype::bf16}) {
    matrix::Cell cell = training_cell(params, trained_models.front());
    cell.config.fp8 = matrix::Fp8Format::hybrid;
    cells.push_back({fmt::format("{} and fp8", enum_name(params)), cell, Allowance{fp8_training},
                     Allowance{fp8_gradient_norm, Against::norm}});
  }
  std::erase_if(cells, [device](const TrainedCell& trained) {
    return matrix::missing_feature(trained.cell, device) != nullptr;
  });
  return cells;
}

std::vector<Bytes> observed_bytes(const LegRecord& record, Device& device) {
  const std::unique_ptr<Stream> stream = device.create_stream("agreement");
  std::vector<Bytes> all;
  for (const workloads::Observation& observation : record.observations) {
    const TensorView& view = observation.snapshot.view();
    all.emplace_back(static_cast<std::size_t>(view.bytes()));
    stream->download(all.back().data(), view);
  }
  return all;
}

/// Losses of all steps are compared, and what leads to the first update; after that a rounding
/// error may turn an update's sign where a gradient is next to nothing.
bool is_compared(const workloads::Observation& observation) {
  switch (observation.quantity) {
    case ObservedQuantity::input_batch:
    case ObservedQuantity::dropout_mask:
    case ObservedQuantity::rng_state:
    case ObservedQuantity::loss:
      return true;
    case ObservedQuantity::routing:
    case ObservedQuantity::layer_output:
    case ObservedQuantity::layer_grad_input:
    case ObservedQuantity::main_grad:
      return observation.where.step == 0;
    default:
      return false;
  }
}

void compare_training(Device& device, Device& reference, const ScenarioContext& context,
                      const TrainedCell& trained, Tally& tally) {
  const LegRecord expected = context.run_eager_leg(reference, trained.cell);
  const LegRecord actual = context.run_eager_leg(device, trained.cell);
  const auto fail = [&](const std::string& detail) {
    tally.detail = fmt::format("training in {}: {}", trained.name, detail);
  };
  if (!expected.error.empty() || !actual.error.empty()) {
    return fail(expected.error.empty() ? actual.error : expected.error);
  }
  if (expected.observations.size() != actual.observations.size()) {
    return fail(fmt::format("{} tensors seen on the reference device, {} here",
                            expected.observations.size(), actual.observations.size()));
  }
  const std::vector<Bytes> expected_bytes = observed_bytes(expected, reference);
  const std::vector<Bytes> actual_bytes = observed_bytes(actual, device);
  for (std::size_t i = 0; i < expected_bytes.size(); ++i) {
    const workloads::Observation& observation = expected.observations[i];
    if (!is_compared(observation)) continue;
    const DType dtype = observation.snapshot.view().dtype;
    ++tally.tensors;
    std::optional<std::string> difference;
    if (row_of(dtype) == nullptr) {
      if (expected_bytes[i] != actual_bytes[i]) difference = "other bytes";
    } else {
      const bool is_gradient = observation.quantity == ObservedQuantity::layer_grad_input ||
                               observation.quantity == ObservedQuantity::main_grad;
      const Allowance& allowed = is_gradient ? trained.gradients : trained.outputs;
      difference =
          find_difference(numbers(expected_bytes[i], dtype), numbers(actual_bytes[i], dtype),
                          allowed.relative, allowed.against);
    }
    if (difference) {
      return fail(fmt::format("step {} micro-batch {} layer {} {}: {}", observation.where.step,
                              observation.where.microbatch, observation.where.layer,
                              observation.where.tensor, *difference));
    }
  }
}

/// A difference just beyond the tolerance must be seen, and one just within it must not.
bool control_holds(const AgreementRow& row) {
  const std::vector<double> expected{0.0, 1.0};
  const std::vector<double> within{0.0, 1.0 + 1.9 * row.op};
  const std::vector<double> beyond{0.0, 1.0 + 2.1 * row.op};
  return !find_difference(expected, within, row.op, Against::element) &&
         find_difference(expected, beyond, row.op, Against::element) &&
         find_difference(expected, {0.0, std::nan("")}, row.op, Against::element) &&
         !find_difference(expected, within, 2.0 * row.op, Against::norm) &&
         find_difference(expected, beyond, 2.0 * row.op, Against::norm) &&
         find_difference(expected, {0.0, std::nan("")}, row.op, Against::norm) &&
         find_difference(expected, {0.0, 1.3}, 1.0, Against::norm) &&
         find_difference(expected, {0.0, 0.5}, 1.0, Against::norm);
}

}  // namespace

CheckResult judge_agreement(Device& device, Device& reference, const ScenarioContext& context) {
  Tally tally;
  for (const AgreementRow& row : agreement_rows) {
    if (!control_holds(row)) {
      return {.verdict = Verdict::fail_suite,
              .detail =
                  fmt::format("the comparison's own control failed for {}", dtype_name(row.dtype))};
    }
    for (const std::int64_t width : row_widths) {
      for (const workloads::OpCase& one : workloads::op_cases(row.dtype, width)) {
        compare_case(device, reference, one, tally);
        if (tally.detail) return failed(*tally.detail);
      }
    }
  }
  const bool on_host = device.properties().kind == "reference";
  for (const TrainedCell& trained :
       trained_cells(on_host ? matrix::TargetDevice::reference : matrix::TargetDevice::cuda)) {
    compare_training(device, reference, context, trained, tally);
    if (tally.detail) return failed(*tally.detail);
  }
  if (const auto measured = device.measurements();
      measured.contains(std::string(workloads::fp8_products_figure)) &&
      measured.at(std::string(workloads::fp8_products_figure)) == 0.0) {
    return failed(
        "the device has units for products in 8 bits, and none of those compared used them");
  }
  return {.detail = fmt::format("{} tensors of ops and training steps agree with the reference "
                                "device",
                                tally.tensors)};
}

CheckResult judge_device_agreement(ScenarioContext& context) {
  if (context.device->properties().kind == "reference") {
    return {.verdict = Verdict::skip, .detail = "this run's device is the reference device"};
  }
  constexpr std::int64_t arena_bytes = std::int64_t{64} << 20;
  const auto reference = workloads::create_reference_device({.arena_bytes = arena_bytes});
  return judge_agreement(*context.device, *reference, context);
}

}  // namespace cgconform::suites::checks

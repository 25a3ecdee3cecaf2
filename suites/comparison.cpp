#include "suites/comparison.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "matrix/error.hpp"
#include "workloads/allocator/caching_allocator.hpp"
#include "workloads/training/tensor_ops.hpp"

namespace cgconform::suites {

using workloads::Buffer;
using workloads::DType;
using workloads::Shape;

namespace {

constexpr std::int64_t control_elements = 8;
constexpr std::int64_t control_bad_index = 5;

/// The bytes of the number one; the number zero is all bytes zero in every dtype.
std::vector<std::byte> bytes_of_one(DType dtype) {
  const auto bytes = [](const auto& value) {
    std::vector<std::byte> result(sizeof(value));
    std::memcpy(result.data(), &value, sizeof(value));
    return result;
  };
  switch (dtype) {
    case DType::fp32:
      return bytes(1.0F);
    case DType::fp64:
      return bytes(1.0);
    case DType::bf16:
      return bytes(std::uint16_t{0x3F80});
    case DType::fp16:
      return bytes(std::uint16_t{0x3C00});
    case DType::int32:
      return bytes(std::int32_t{1});
    case DType::int64:
      return bytes(std::int64_t{1});
    case DType::uint64:
      return bytes(std::uint64_t{1});
    case DType::uint8:
      return bytes(std::uint8_t{1});
  }
  throw InternalError("a dtype without a control value");
}

std::string describe(const Comparison& comparison) {
  return fmt::format(
      "{} of {} elements bad, first {}, expected {}, actual {}, largest difference {}",
      comparison.bad_count, comparison.element_count, comparison.first_bad_index,
      comparison.expected, comparison.actual, comparison.max_abs);
}

}  // namespace

class ControlTensors::Memory {
 public:
  explicit Memory(workloads::Device& device)
      : stream_(device.create_stream("comparator control")), allocator_(device.segment_source()) {}

  void prepare(const std::set<DType>& types) {
    const std::size_t known = tensors_.size();
    for (const DType dtype : types) {
      if (!tensors_.contains(dtype)) tensors_.emplace(dtype, make(dtype));
    }
    if (tensors_.size() != known) stream_->synchronize();
  }

  void renew() {
    for (const auto& [dtype, tensor] : tensors_) write(tensor.view());
    if (!tensors_.empty()) stream_->synchronize();
  }

  enum Row : std::uint8_t { zeros, marked, marked_again, rows };
  ComparisonPair pair(DType dtype, Row expected, Row actual) const {
    const workloads::TensorView tensor = tensors_.at(dtype).view();
    return {workloads::rows_of(tensor, expected, 1), workloads::rows_of(tensor, actual, 1)};
  }

 private:
  Buffer make(DType dtype) {
    Buffer buffer(allocator_, *stream_, workloads::default_pool, dtype,
                  Shape{rows, control_elements}, "comparator control");
    write(buffer.view());
    return buffer;
  }

  void write(const workloads::TensorView& tensor) {
    const DType dtype = tensor.dtype;
    const auto element = static_cast<std::size_t>(workloads::dtype_bytes(dtype));
    std::vector<std::byte> content(element * control_elements * rows);
    const auto one = bytes_of_one(dtype);
    for (const Row row : {marked, marked_again}) {
      const std::size_t at = element * (control_elements * row + control_bad_index);
      std::copy(one.begin(), one.end(), content.begin() + static_cast<std::ptrdiff_t>(at));
    }
    stream_->upload(tensor, content.data(), false, "comparator control");
  }

  std::unique_ptr<workloads::Stream> stream_;
  workloads::CachingAllocator allocator_;
  std::map<DType, Buffer> tensors_;
};

ControlTensors::ControlTensors(workloads::Device& device)
    : memory_(std::make_unique<Memory>(device)) {}

ControlTensors::~ControlTensors() = default;

void ControlTensors::prepare(const std::set<DType>& types) {
  memory_->prepare(types);
}

void ControlTensors::renew() {
  memory_->renew();
}

ComparisonPair ControlTensors::different(DType dtype) const {
  return memory_->pair(dtype, Memory::zeros, Memory::marked);
}

ComparisonPair ControlTensors::equal(DType dtype) const {
  return memory_->pair(dtype, Memory::marked, Memory::marked_again);
}

ControlledComparator::ControlledComparator(workloads::Device& device, TensorComparator& comparator,
                                           std::shared_ptr<ControlTensors> controls)
    : comparator_(comparator),
      tensors_(controls != nullptr ? std::move(controls)
                                   : std::make_shared<ControlTensors>(device)) {
  tensors_->renew();
}

std::vector<Comparison> ControlledComparator::compare(std::vector<ComparisonPair> pairs,
                                                      const Tolerance& tolerance) {
  if (pairs.empty()) return {};
  std::set<DType> types;
  DType last = pairs.front().expected.dtype;
  types.insert(last);
  for (const ComparisonPair& pair : pairs) {
    if (std::exchange(last, pair.expected.dtype) != last) types.insert(last);
  }
  tensors_->prepare(types);
  const std::size_t real = pairs.size();
  for (const DType dtype : types) {
    pairs.push_back(tensors_->different(dtype));
    pairs.push_back(tensors_->equal(dtype));
  }
  std::vector<Comparison> outcomes = comparator_.compare(pairs, tolerance);
  if (outcomes.size() != pairs.size()) {
    throw InternalError(
        fmt::format("the comparator gave {} outcomes for {} pairs", outcomes.size(), pairs.size()));
  }
  constexpr std::size_t controls_a_type = 2;
  for (std::size_t control = real; control < outcomes.size(); control += controls_a_type) {
    judge_controls(std::span(outcomes).subspan(control, controls_a_type));
  }
  outcomes.resize(real);
  comparisons_ += real;
  return outcomes;
}

void ControlledComparator::judge_controls(std::span<const Comparison> controls) {
  ++controls_;
  if (!control_failure_.empty()) return;
  const Comparison& different = controls[0];
  const Comparison& equal = controls[1];
  const bool sees_difference =
      different.element_count == control_elements && different.bad_count == 1 &&
      different.first_bad_index == control_bad_index && different.expected == 0.0 &&
      different.actual == 1.0 && different.max_abs == 1.0;
  if (!sees_difference) {
    control_failure_ = fmt::format("tensors that differ in element {} of {} by 1 gave: {}",
                                   control_bad_index, control_elements, describe(different));
  } else if (!equal.equal() || equal.element_count != control_elements) {
    control_failure_ =
        fmt::format("equal tensors of {} elements gave: {}", control_elements, describe(equal));
  }
}

}  // namespace cgconform::suites

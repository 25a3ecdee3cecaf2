#include "suites/checks/comparator_cases.hpp"

#include <array>
#include <cmath>
#include <limits>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "workloads/allocator/caching_allocator.hpp"

namespace cgconform::suites::checks {
namespace {

using workloads::Buffer;
using workloads::Shape;

constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr Tolerance bitwise{};
constexpr Tolerance close{.relative = 1e-6, .absolute = 0.0};

/// One pair of fp32 tensors and what must come out.
struct ComparatorCase {
  std::string_view name;
  std::vector<float> expected;
  std::vector<float> actual;
  Tolerance tolerance;
  std::int64_t bad_count;
  std::int64_t first_bad_index;
};

float ulps_above_one(int ulps) {
  float value = 1.0F;
  for (int i = 0; i < ulps; ++i) value = std::nextafter(value, 2.0F);
  return value;
}

std::vector<ComparatorCase> comparator_cases() {
  return {
      {"equal numbers", {1, 2, 3}, {1, 2, 3}, bitwise, 0, -1},
      {"one other number", {1, 2, 3}, {1, 2, 4}, bitwise, 1, 2},
      {"all other numbers", {1, 2, 3}, {4, 5, 6}, bitwise, 3, 0},
      {"NaN against a number", {1, 2}, {1, nan}, bitwise, 1, 1},
      {"a number against NaN", {nan, 2}, {1, 2}, close, 1, 0},
      {"NaN against NaN", {nan}, {nan}, close, 0, -1},
      {"infinities of other signs", {infinity}, {-infinity}, close, 1, 0},
      {"infinities of one sign", {infinity}, {infinity}, close, 0, -1},
      {"infinity against the largest number",
       {infinity},
       {std::numeric_limits<float>::max()},
       close,
       1,
       0},
      {"zeros of other signs, bit for bit", {0.0F}, {-0.0F}, bitwise, 1, 0},
      {"zeros of other signs, within tolerance", {0.0F}, {-0.0F}, close, 0, -1},
      {"one ulp, bit for bit", {1.0F}, {ulps_above_one(1)}, bitwise, 1, 0},
      {"the last ulp inside the tolerance", {1.0F}, {ulps_above_one(8)}, close, 0, -1},
      {"the first ulp outside the tolerance", {1.0F}, {ulps_above_one(9)}, close, 1, 0},
  };
}

class CaseTensors {
 public:
  explicit CaseTensors(workloads::Device& device)
      : stream_(device.create_stream("comparator cases")), allocator_(device.segment_source()) {}

  Buffer make(const std::vector<float>& values, const Shape& shape) {
    Buffer buffer(allocator_, *stream_, workloads::default_pool, workloads::DType::fp32, shape,
                  "comparator case");
    stream_->upload(buffer.view(), values.data(), false, "comparator case");
    stream_->synchronize();
    return buffer;
  }
  Buffer make(const std::vector<float>& values) {
    return make(values, Shape{static_cast<std::int64_t>(values.size())});
  }

 private:
  std::unique_ptr<workloads::Stream> stream_;
  workloads::CachingAllocator allocator_;
};

CheckResult wrong(std::string_view name, const Comparison& seen, std::int64_t bad_count) {
  return {.verdict = Verdict::fail_suite,
          .detail = fmt::format("{}: {} bad elements expected, {} found, first at {}", name,
                                bad_count, seen.bad_count, seen.first_bad_index)};
}

}  // namespace

CheckResult judge_comparator(workloads::Device& device, TensorComparator& comparator) {
  CaseTensors tensors(device);
  const auto cases = comparator_cases();
  for (const ComparatorCase& one : cases) {
    const Buffer expected = tensors.make(one.expected);
    const Buffer actual = tensors.make(one.actual);
    const ComparisonPair pair{expected.view(), actual.view()};
    const Comparison seen = comparator.compare(std::span(&pair, 1), one.tolerance).at(0);
    if (seen.bad_count != one.bad_count || seen.first_bad_index != one.first_bad_index ||
        seen.element_count != static_cast<std::int64_t>(one.expected.size())) {
      return wrong(one.name, seen, one.bad_count);
    }
  }

  const Buffer flat = tensors.make({1, 2, 3, 4}, Shape{4});
  const Buffer square = tensors.make({1, 2, 3, 4}, Shape{2, 2});
  const std::array shapes{ComparisonPair{flat.view(), square.view()},
                          ComparisonPair{flat.view(), workloads::TensorView{}},
                          ComparisonPair{flat.view(), flat.view()}};
  const auto outcomes = comparator.compare(shapes, bitwise);
  if (outcomes.at(0).equal()) return wrong("other shapes", outcomes.at(0), 4);
  if (outcomes.at(1).equal()) return wrong("no tensor", outcomes.at(1), 4);
  if (!outcomes.at(2).equal()) return wrong("a tensor with itself", outcomes.at(2), 0);
  return {.detail = fmt::format("{} pairs gave the right answer", cases.size() + shapes.size())};
}

CheckResult judge_device_comparator(ScenarioContext& context) {
  const auto comparator = create_device_comparator(*context.device);
  return judge_comparator(*context.device, *comparator);
}

}  // namespace cgconform::suites::checks

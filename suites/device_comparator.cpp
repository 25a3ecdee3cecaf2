#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "suites/comparison.hpp"
#include "workloads/allocator/caching_allocator.hpp"
#include "workloads/training/tensor_ops.hpp"

namespace cgconform::suites {
namespace {

using workloads::Buffer;
using workloads::CompareOutcome;
using workloads::CompareParams;
using workloads::DType;
using workloads::Shape;
using workloads::TensorView;

constexpr auto outcome_bytes = static_cast<std::int64_t>(sizeof(CompareOutcome));

bool comparable(const ComparisonPair& pair) {
  return pair.expected.valid() && pair.actual.valid() && pair.expected.dtype == pair.actual.dtype &&
         pair.expected.shape == pair.actual.shape;
}

Comparison wholly_bad(const ComparisonPair& pair) {
  const std::int64_t elements =
      std::max({pair.expected.elements(), pair.actual.elements(), std::int64_t{1}});
  return {.element_count = elements, .bad_count = elements, .first_bad_index = 0};
}

Comparison from_outcome(const CompareOutcome& outcome) {
  return {.element_count = outcome.element_count,
          .bad_count = outcome.bad_count,
          .first_bad_index = outcome.first_bad_index,
          .expected = outcome.expected,
          .actual = outcome.actual,
          .max_abs = outcome.max_abs,
          .max_rel = outcome.max_rel,
          .max_ulp = outcome.max_ulp};
}

std::ptrdiff_t position(const TensorView& part, const TensorView& whole) {
  return static_cast<const std::byte*>(part.data) - static_cast<const std::byte*>(whole.data);
}

/// True where the pair lies at one place of two wholes that can be compared.
bool has_wholes(const ComparisonPair& pair) {
  return comparable(pair) && comparable({pair.whole_expected, pair.whole_actual, {}, {}}) &&
         pair.whole_expected.dtype == pair.expected.dtype &&
         position(pair.expected, pair.whole_expected) == position(pair.actual, pair.whole_actual);
}

/// Pairs that lie in the same two wholes.
struct Group {
  ComparisonPair wholes;
  std::vector<std::size_t> members;
};

/// The groups of all pairs that have wholes. Pairs of a group mostly follow each other.
std::vector<Group> groups_of(std::span<const ComparisonPair> pairs) {
  std::vector<Group> groups;
  std::map<std::pair<void*, void*>, std::size_t> known;
  std::pair<void*, void*> last{};
  std::size_t index = 0;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const ComparisonPair& pair = pairs[i];
    if (!has_wholes(pair)) continue;
    const std::pair<void*, void*> key{pair.whole_expected.data, pair.whole_actual.data};
    if (groups.empty() || key != last) {
      last = key;
      const auto [found, is_new] = known.try_emplace(key, groups.size());
      index = found->second;
      if (is_new) groups.push_back({{pair.whole_expected, pair.whole_actual, {}, {}}, {}});
    }
    groups[index].members.push_back(i);
  }
  return groups;
}

/// Compares all pairs of a type in one call and fetches all outcomes with a single download. Where
/// pairs are parts of larger tensors, those are compared first, and the parts only where those
/// differ.
class DeviceComparator final : public TensorComparator {
 public:
  explicit DeviceComparator(workloads::Device& device)
      : stream_(device.create_stream("comparison")), allocator_(device.segment_source()) {}

  std::vector<Comparison> compare(std::span<const ComparisonPair> pairs,
                                  const Tolerance& tolerance) override {
    if (pairs.empty()) return {};
    const std::vector<Group> groups = groups_of(pairs);
    std::vector<ComparisonPair> batch;
    batch.reserve(pairs.size());
    std::vector<bool> grouped(pairs.size(), false);
    for (const Group& group : groups) {
      batch.push_back(group.wholes);
      for (const std::size_t member : group.members) grouped[member] = true;
    }
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      if (!grouped[i]) batch.push_back(pairs[i]);
    }
    const std::vector<Comparison> outcomes = compare_each(batch, tolerance);

    std::vector<Comparison> comparisons(pairs.size());
    std::vector<std::size_t> looked_into;
    for (std::size_t group = 0; group < groups.size(); ++group) {
      for (const std::size_t member : groups[group].members) {
        comparisons[member].element_count = pairs[member].expected.elements();
        if (!outcomes[group].equal()) looked_into.push_back(member);
      }
    }
    std::size_t next = groups.size();
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      if (!grouped[i]) comparisons[i] = outcomes[next++];
    }
    batch.clear();
    for (const std::size_t member : looked_into) batch.push_back(pairs[member]);
    const std::vector<Comparison> parts = compare_each(batch, tolerance);
    for (std::size_t i = 0; i < parts.size(); ++i) comparisons[looked_into[i]] = parts[i];
    return comparisons;
  }

 private:
  std::vector<Comparison> compare_each(std::span<const ComparisonPair> pairs,
                                       const Tolerance& tolerance) {
    if (pairs.empty()) return {};
    const CompareParams params{.bitwise = tolerance.bitwise(),
                               .relative = tolerance.relative,
                               .absolute = tolerance.absolute};
    std::map<DType, std::vector<std::size_t>> by_type;
    std::size_t count = 0;
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      if (!comparable(pairs[i])) continue;
      by_type[pairs[i].expected.dtype].push_back(i);
      ++count;
    }
    std::vector<Comparison> comparisons;
    comparisons.reserve(pairs.size());
    for (const ComparisonPair& pair : pairs) comparisons.push_back(wholly_bad(pair));
    if (count == 0) return comparisons;

    const Buffer outcomes(allocator_, *stream_, workloads::default_pool, DType::uint8,
                          Shape{static_cast<std::int64_t>(count), outcome_bytes},
                          "comparison outcomes");
    std::int64_t row = 0;
    std::vector<std::size_t> order;
    for (const auto& [type, indices] : by_type) {
      std::vector<workloads::TensorPair> operands;
      operands.reserve(indices.size());
      for (const std::size_t i : indices) operands.push_back({pairs[i].expected, pairs[i].actual});
      const auto rows = static_cast<std::int64_t>(indices.size());
      workloads::compare_pairs(*stream_, workloads::rows_of(outcomes.view(), row, rows), operands,
                               params, "comparison");
      row += rows;
      order.insert(order.end(), indices.begin(), indices.end());
    }
    std::vector<CompareOutcome> fetched(count);
    stream_->download(fetched.data(), outcomes.view());
    for (std::size_t i = 0; i < count; ++i) comparisons[order[i]] = from_outcome(fetched[i]);
    return comparisons;
  }

  std::unique_ptr<workloads::Stream> stream_;
  workloads::CachingAllocator allocator_;
};

class EqualSayingComparator final : public TensorComparator {
 public:
  std::vector<Comparison> compare(std::span<const ComparisonPair> pairs,
                                  const Tolerance& /*tolerance*/) override {
    std::vector<Comparison> comparisons;
    comparisons.reserve(pairs.size());
    for (const ComparisonPair& pair : pairs) {
      comparisons.push_back({.element_count = pair.expected.elements()});
    }
    return comparisons;
  }
};

}  // namespace

std::unique_ptr<TensorComparator> create_equal_saying_comparator() {
  return std::make_unique<EqualSayingComparator>();
}

std::unique_ptr<TensorComparator> create_device_comparator(workloads::Device& device) {
  return std::make_unique<DeviceComparator>(device);
}

}  // namespace cgconform::suites

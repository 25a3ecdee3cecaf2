#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "suites/tolerance.hpp"
#include "workloads/device/device.hpp"
#include "workloads/device/tensor.hpp"

namespace cgconform::suites {

/// Two tensors of equal dtype and shape in device memory. Where both are parts of larger tensors,
/// those may be given too: if they are equal, so are all their parts.
struct ComparisonPair {
  workloads::TensorView expected;
  workloads::TensorView actual;
  workloads::TensorView whole_expected;
  workloads::TensorView whole_actual;
};

/// How two tensors differ. An element is bad where it is not equal bit for bit or, under a
/// tolerance, not close; NaN equals NaN only.
struct Comparison {
  std::int64_t element_count = 0;
  std::int64_t bad_count = 0;
  std::int64_t first_bad_index = -1;
  double expected = 0.0;  ///< at the first bad index
  double actual = 0.0;
  double max_abs = 0.0;
  double max_rel = 0.0;
  std::int64_t max_ulp = 0;
  bool equal() const { return bad_count == 0; }
};

/// Compares pairs of tensors on the device. An interface, so that the runner can be given a
/// comparator that does not work and must find out.
class TensorComparator {
 public:
  virtual ~TensorComparator() = default;
  /// One outcome a pair, in their order. Pairs of different dtype or shape are wholly bad.
  virtual std::vector<Comparison> compare(std::span<const ComparisonPair> pairs,
                                          const Tolerance& tolerance) = 0;
};

/// The comparator that launches the comparison op on `device`, which must outlive it.
std::unique_ptr<TensorComparator> create_device_comparator(workloads::Device& device);

/// A comparator that says equal without looking: the sabotage that every cell's control must catch.
std::unique_ptr<TensorComparator> create_equal_saying_comparator();

/// Small tensors on the device, which must outlive them: for each type in use a row of zeros, and
/// twice the same row with a one in it. They are made once and only read, but by a stray write of a
/// cell, which must not be held against the next one.
class ControlTensors {
 public:
  explicit ControlTensors(workloads::Device& device);
  ~ControlTensors();
  ControlTensors(const ControlTensors&) = delete;
  ControlTensors& operator=(const ControlTensors&) = delete;

  /// Makes those of these types that are not there yet; the other calls ask for them.
  void prepare(const std::set<workloads::DType>& types);
  /// Writes those that are there anew.
  void renew();
  ComparisonPair different(workloads::DType dtype) const;
  ComparisonPair equal(workloads::DType dtype) const;

 private:
  class Memory;
  std::unique_ptr<Memory> memory_;
};

/// A comparator with its own control: every batch carries, for each type in it, one pair known to
/// differ and one known to be equal, through the same call as the real pairs.
class ControlledComparator {
 public:
  /// With `controls` of its own where none are given; those that are given are renewed.
  ControlledComparator(workloads::Device& device, TensorComparator& comparator,
                       std::shared_ptr<ControlTensors> controls = nullptr);
  ~ControlledComparator() = default;
  ControlledComparator(const ControlledComparator&) = delete;
  ControlledComparator& operator=(const ControlledComparator&) = delete;

  /// As TensorComparator::compare; also judges the control pairs of the batch.
  std::vector<Comparison> compare(std::vector<ComparisonPair> pairs, const Tolerance& tolerance);

  /// Controls judged so far: one for each type of a batch.
  std::uint64_t controls() const { return controls_; }
  /// Real pairs compared so far.
  std::uint64_t comparisons() const { return comparisons_; }
  /// What was wrong with the first control that failed; empty while all held.
  const std::string& control_failure() const { return control_failure_; }

 private:
  void judge_controls(std::span<const Comparison> controls);

  TensorComparator& comparator_;
  std::shared_ptr<ControlTensors> tensors_;
  std::uint64_t controls_ = 0;
  std::uint64_t comparisons_ = 0;
  std::string control_failure_;
};

}  // namespace cgconform::suites

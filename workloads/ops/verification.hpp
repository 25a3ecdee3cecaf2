#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <string>

#include "workloads/device/stream.hpp"

namespace cgconform::workloads {

extern const OpDeclaration copies_op;
extern const OpDeclaration checksum_op;
extern const OpDeclaration checksums_op;
extern const OpDeclaration compare_op;
extern const OpDeclaration compare_pairs_op;

struct CopyPair {
  TensorView destination;
  TensorView source;
};

/// Copies many tensors in one call; destinations overlap neither each other nor a source. The
/// declaration's operands repeat for each pair.
void copies(Stream& stream, std::span<const CopyPair> pairs, std::string label);

/// Writes a 64-bit hash of the bytes of `source` into `cell`, one uint64. Every word is mixed with
/// its position, so equal values in another order hash differently.
void checksum(Stream& stream, const TensorView& cell, const TensorView& source, std::string label);

/// `checksum` of many tensors in one call: that of source i goes into element i of `cells`. The
/// declaration's last operand repeats for each source.
void checksums(Stream& stream, const TensorView& cells, std::span<const TensorView> sources,
               std::string label);

/// How `compare` judges an element.
struct CompareParams {
  bool bitwise = true;
  double relative = 0.0;  ///< |actual - expected| <= absolute + relative * |expected| is close
  double absolute = 0.0;
};

/// Upper ends, in ulps, of the counts of `CompareOutcome::ulp_histogram`.
constexpr std::array<std::int64_t, 6> ulp_limits{
    0, 1, 4, 16, 1024, std::numeric_limits<std::int64_t>::max()};

/// What `compare` writes, as bytes. Under `bitwise` an element is bad where any bit differs, so -0
/// differs from 0 and NaN payloads count. Otherwise -0 equals 0, NaN is close to any NaN and to
/// nothing else, and an infinity to the same infinity only. Empty tensors are equal.
struct CompareOutcome {
  std::int64_t element_count = 0;
  std::int64_t bad_count = 0;
  std::int64_t nan_mismatch_count = 0;  ///< bad elements of which exactly one is NaN
  std::int64_t first_bad_index = -1;
  double expected = 0.0;  ///< at the first bad index
  double actual = 0.0;
  double max_abs = 0.0;  ///< over bad elements; infinite where NaN or an infinity met a number
  double max_rel = 0.0;
  std::int64_t max_ulp = 0;  ///< over bad elements of which neither is NaN; floating types only
  /// Bad elements by their distance, of which neither is NaN; floating types only.
  std::array<std::int64_t, ulp_limits.size()> ulp_histogram{};
};

/// Compares two tensors of equal type and shape; `outcome` is a uint8 tensor of
/// sizeof(CompareOutcome) bytes. Throws InternalError where type or shape differ.
void compare(Stream& stream, const TensorView& outcome, const TensorView& expected,
             const TensorView& actual, const CompareParams& params, std::string label);

struct TensorPair {
  TensorView expected;
  TensorView actual;
};

/// `compare` of many pairs of one type in one call: the outcome of pair i is row i of `outcomes`,
/// uint8 [pairs, sizeof(CompareOutcome)]. The declaration's last two operands repeat for each pair.
void compare_pairs(Stream& stream, const TensorView& outcomes, std::span<const TensorPair> pairs,
                   const CompareParams& params, std::string label);

}  // namespace cgconform::workloads

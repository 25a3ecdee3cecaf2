#pragma once

#include <string>

#include "matrix/cell.hpp"
#include "suites/comparison.hpp"
#include "suites/leg_set.hpp"

namespace cgconform::suites {

/// The control of the whole way from two legs to their first difference: for each dtype that the
/// cell's eager leg observed, the largest tensor is compared with a copy whose last element is
/// wrong. Says what was overlooked; empty where all was seen or nothing was observed.
std::string find_overlooked_difference(const matrix::Cell& cell, const LegSet& legs,
                                       workloads::Device& device, ControlledComparator& comparator);

}  // namespace cgconform::suites

#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "matrix/cell.hpp"

namespace cgconform::matrix {

/// The device a run is planned for.
enum class TargetDevice : std::uint8_t { reference, cuda };

std::string_view device_name(TargetDevice device);

/// Something a cell can need of the workload. Where it is not built for the device, the cell is
/// skipped as `not built yet: NAME`.
struct Feature {
  std::string_view name;
  bool built_on_reference;
  bool built_on_cuda;
  bool (*needed)(const Cell& cell);
};

/// Every feature that is not everywhere; building one means flipping its row.
std::span<const Feature> feature_table();

/// The first feature of the table that the cell needs and the device lacks, or null.
const Feature* missing_feature(const Cell& cell, TargetDevice device);

}  // namespace cgconform::matrix

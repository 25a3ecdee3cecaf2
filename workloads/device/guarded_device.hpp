#pragma once

#include <memory>

#include "workloads/allocator/guarded_source.hpp"
#include "workloads/device/device.hpp"

namespace cgconform::workloads {

/// `device` with guard pages: its segments are mappings of their own, so that an access out of a
/// buffer's bounds faults. Returns the device as it is where `placement` is packed.
std::unique_ptr<Device> with_guard_pages(std::unique_ptr<Device> device, BlockPlacement placement);

}  // namespace cgconform::workloads

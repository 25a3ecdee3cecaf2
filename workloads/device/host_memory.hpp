#pragma once

namespace cgconform::workloads {

/// From now on the C library keeps what this process frees for later allocations, in place of
/// giving it back to the system: legs allocate and free the same again and again, and pages that
/// are new each time cost more than the launches in between.
void keep_freed_host_memory();

}  // namespace cgconform::workloads

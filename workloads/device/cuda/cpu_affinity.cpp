#include "workloads/device/cuda/cpu_affinity.hpp"

#include <cstdlib>
#include <memory>

#include <hwloc.h>

namespace cgconform::workloads::cuda {

namespace {

struct TopologyDeleter {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
using Topology = std::unique_ptr<hwloc_topology, TopologyDeleter>;

/// The machine with its PCI devices; null where it cannot be read.
Topology load_topology() {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return nullptr;
  Topology topology(raw);
  hwloc_topology_set_io_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
  if (hwloc_topology_load(raw) != 0) return nullptr;
  return topology;
}

}  // namespace

std::string bind_near_pci_device(const std::string& bus_id) {
  const Topology topology = load_topology();
  if (!topology) return {};
  hwloc_obj_t near = hwloc_get_pcidev_by_busidstring(topology.get(), bus_id.c_str());
  near = near == nullptr ? hwloc_get_root_obj(topology.get())
                         : hwloc_get_non_io_ancestor_obj(topology.get(), near);
  if (near == nullptr || near->cpuset == nullptr || hwloc_bitmap_iszero(near->cpuset)) return {};
  if (hwloc_set_cpubind(topology.get(), near->cpuset, HWLOC_CPUBIND_PROCESS) != 0) return {};
  char* text = nullptr;
  if (hwloc_bitmap_list_asprintf(&text, near->cpuset) < 0) return {};
  const std::unique_ptr<char, decltype(&std::free)> owned(text, &std::free);
  return owned.get();
}

}  // namespace cgconform::workloads::cuda

#pragma once

#include <string>

namespace cgconform::workloads::cuda {

/// Binds this process, its threads to come included, to the cores near the PCI device, such as
/// "0000:1b:00.0". A launcher may have bound the rank to one core, on which NCCL's proxy threads
/// would starve. Returns the cores as a list ("0-15"); empty where the topology does not say and
/// the binding was left alone.
std::string bind_near_pci_device(const std::string& bus_id);

}  // namespace cgconform::workloads::cuda

#pragma once

#include <memory>

#include "workloads/device/communicator.hpp"
#include "workloads/device/reference/core.hpp"

namespace gloo::transport {
class Device;
}

namespace cgconform::workloads::reference {

/// A communicator over Gloo's point-to-point messages. Collectives are built from messages so that
/// reductions run in rank order, bit for bit the same in eager and in replay.
/// `transport` may be null where the size is 1.
std::unique_ptr<Communicator> create_gloo_communicator(
    std::shared_ptr<Core> core, const CommunicatorOptions& options,
    std::shared_ptr<gloo::transport::Device> transport);

}  // namespace cgconform::workloads::reference

#include "workloads/device/reference/capture_session.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace cgconform::workloads::reference {

void CaptureSession::end() {
  ended_ = true;
  nodes_.clear();
  commands_.clear();
  has_successor_.clear();
  last_of_communicator_.clear();
}

std::int32_t CaptureSession::add(Command command, std::span<const std::int32_t> dependencies) {
  const auto index = static_cast<std::int32_t>(nodes_.size());
  std::vector<std::int32_t> edges(dependencies.begin(), dependencies.end());
  if (command.communication != nullptr) {
    const CommunicatorCore* core = command.communication->core().get();
    const auto [last, first_use] = last_of_communicator_.try_emplace(core, index);
    if (!first_use) merge_tail(edges, {&last->second, 1});
    last->second = index;
  }
  std::sort(edges.begin(), edges.end());
  for (std::int32_t edge : edges) has_successor_[static_cast<std::size_t>(edge)] = true;
  has_successor_.push_back(false);
  GraphNode node{.kind = command.kind,
                 .label = command.call.label,
                 .op_name = command.op_name(),
                 .operands = command.call.operands,
                 .dependencies = std::move(edges)};
  if (command.communication != nullptr) {
    node.communicator = command.communication->core()->name();
    node.rank = command.communication->rank();
    node.peer = command.communication->peer();
  }
  nodes_.push_back(std::move(node));
  commands_.push_back(std::move(command));
  return index;
}

bool CaptureSession::joined(std::span<const std::int32_t> tail) const {
  for (std::size_t node = 0; node < nodes_.size(); ++node) {
    if (has_successor_[node]) continue;
    if (std::find(tail.begin(), tail.end(), static_cast<std::int32_t>(node)) == tail.end()) {
      return false;
    }
  }
  return true;
}

void merge_tail(std::vector<std::int32_t>& tail, std::span<const std::int32_t> more) {
  for (std::int32_t node : more) {
    if (std::find(tail.begin(), tail.end(), node) == tail.end()) tail.push_back(node);
  }
}

}  // namespace cgconform::workloads::reference

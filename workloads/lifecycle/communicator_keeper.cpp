#include "workloads/lifecycle/communicator_keeper.hpp"

#include <exception>

namespace cgconform::workloads {

CommunicatorKeeper::~CommunicatorKeeper() {
  try {
    end_unused();
  } catch (const std::exception&) {
    // Nobody can be told; the communicators' own destructors follow.
    return;
  }
}

bool CommunicatorKeeper::retire(std::unique_ptr<Communicator> communicator, CommunicatorEnd how) {
  deferred_.emplace_back(std::move(communicator), how);
  const std::size_t kept = deferred_.size();
  end_unused();
  return deferred_.size() < kept;
}

void CommunicatorKeeper::end_unused() {
  for (std::size_t i = deferred_.size(); i-- > 0;) {
    if (deferred_[i].first->live_graph_references() > 0) continue;
    auto [communicator, how] = std::move(deferred_[i]);
    deferred_.erase(deferred_.begin() + static_cast<std::ptrdiff_t>(i));
    communicator->end(how);
  }
}

}  // namespace cgconform::workloads

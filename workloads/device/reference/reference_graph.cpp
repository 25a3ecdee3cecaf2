#include "workloads/device/reference/reference_graph.hpp"

#include <utility>

#include "workloads/device/reference/reference_stream.hpp"

namespace cgconform::workloads::reference {
namespace {

// One step of SplitMix64: neighbouring seeds, graphs and launches give unrelated orders.
std::uint64_t mix(std::uint64_t value) {
  value += 0x9e3779b97f4a7c15U;
  value = (value ^ (value >> 30U)) * 0xbf58476d1ce4e5b9U;
  value = (value ^ (value >> 27U)) * 0x94d049bb133111ebU;
  return value ^ (value >> 31U);
}

}  // namespace

ReferenceGraph::ReferenceGraph(std::shared_ptr<Core> core, std::shared_ptr<const GraphBody> body)
    : core_(std::move(core)), references_(std::move(body)), number_(core_->next_graph_number()) {}

std::unique_ptr<GraphExec> ReferenceGraph::instantiate() {
  return core_->call("instantiate", {}, [&]() -> std::unique_ptr<GraphExec> {
    core_->require_safe(CaptureViolation::instantiate_graph, "instantiate");
    return std::make_unique<ReferenceGraphExec>(core_, references_.body(), number_);
  });
}

ReferenceGraphExec::ReferenceGraphExec(std::shared_ptr<Core> core,
                                       std::shared_ptr<const GraphBody> body,
                                       std::uint64_t graph_number)
    : core_(std::move(core)),
      references_(std::make_shared<const GraphReferences>(std::move(body))),
      graph_number_(graph_number) {}

void ReferenceGraphExec::launch(Stream& stream) {
  core_->call("graph launch", {}, [&] {
    const std::uint64_t seed = mix(mix(mix(core_->replay_seed()) + graph_number_) + launches_);
    core_->launch_graph(state_of(stream),
                        {.graph = references_, .replay = launches_, .order_seed = seed},
                        last_launch_);
    ++launches_;
  });
}

}  // namespace cgconform::workloads::reference

#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "workloads/device/graph.hpp"
#include "workloads/device/reference/core.hpp"

namespace cgconform::workloads::reference {

class ReferenceGraph : public Graph {
 public:
  ReferenceGraph(std::shared_ptr<Core> core, std::shared_ptr<const GraphBody> body);
  std::span<const GraphNode> nodes() const override { return references_.body()->nodes(); }
  std::unique_ptr<GraphExec> instantiate(const InstantiateOptions& options) override;
  using Graph::instantiate;
  std::unique_ptr<Graph> clone() const override;
  GraphCensus census() const override;
  std::string dot() const override;
  void retain(std::shared_ptr<void> user_object) override;
  const std::shared_ptr<const GraphBody>& body() const { return references_.body(); }

 private:
  std::shared_ptr<Core> core_;
  LiveObject live_;
  GraphReferences references_;
  std::uint64_t number_;
  std::vector<std::shared_ptr<void>> user_objects_;
};

/// Destroying it while a launch is in flight lets that launch complete.
class ReferenceGraphExec : public GraphExec {
 public:
  ReferenceGraphExec(std::shared_ptr<Core> core, std::shared_ptr<const GraphBody> body,
                     std::uint64_t graph_number, std::vector<std::shared_ptr<void>> user_objects);
  void launch(Stream& stream) override;
  void upload(Stream& stream) override;
  std::uint64_t launches() const override { return launches_; }
  UpdateOutcome update(const Graph& graph) override;

 private:
  std::shared_ptr<Core> core_;
  LiveObject live_;
  std::shared_ptr<const GraphReferences> references_;
  std::uint64_t graph_number_;
  std::vector<std::shared_ptr<void>> user_objects_;
  std::uint64_t launches_ = 0;
  QueuePoint last_launch_;
};

}  // namespace cgconform::workloads::reference

#include "workloads/device/reference/graph_run.hpp"

#include <algorithm>
#include <utility>

#include "matrix/error.hpp"

namespace cgconform::workloads::reference {

GraphBody::GraphBody(std::vector<GraphNode> nodes, std::vector<Command> commands)
    : nodes_(std::move(nodes)), commands_(std::move(commands)), successors_(nodes_.size()) {
  for (std::size_t index = 0; index < nodes_.size(); ++index) {
    for (std::int32_t dependency : nodes_[index].dependencies) {
      successors_[static_cast<std::size_t>(dependency)].push_back(static_cast<std::int32_t>(index));
    }
    if (commands_[index].communication == nullptr) continue;
    const auto& core = commands_[index].communication->core();
    if (std::find(communicators_.begin(), communicators_.end(), core) == communicators_.end()) {
      communicators_.push_back(core);
    }
  }
}

GraphReferences::GraphReferences(std::shared_ptr<const GraphBody> body) : body_(std::move(body)) {
  for (const auto& core : body_->communicators()) core->add_graph_reference();
}

GraphReferences::~GraphReferences() {
  for (const auto& core : body_->communicators()) core->drop_graph_reference();
}

GraphRun::GraphRun(std::shared_ptr<const GraphBody> body, std::uint64_t replay,
                   std::uint64_t order_seed)
    : body_(std::move(body)), replay_(replay), random_(order_seed), left_(body_->nodes().size()) {
  unmet_.reserve(left_);
  for (std::size_t index = 0; index < left_; ++index) {
    const auto& dependencies = body_->nodes()[index].dependencies;
    unmet_.push_back(static_cast<std::int32_t>(dependencies.size()));
    if (dependencies.empty()) ready_.push_back(static_cast<std::int32_t>(index));
  }
}

std::size_t GraphRun::pick(std::size_t count) {
  return count == 1 ? 0 : static_cast<std::size_t>(random_() % count);
}

void GraphRun::finish(std::int32_t node) {
  --left_;
  for (std::int32_t successor : body_->successors(node)) {
    if (--unmet_[static_cast<std::size_t>(successor)] == 0) ready_.push_back(successor);
  }
}

bool GraphRun::finish_arrived() {
  bool any = false;
  for (std::size_t index = 0; index < flights_.size();) {
    const std::int32_t node = flights_[index].node;
    label_ = body_->command(node).call.label;
    if (flights_[index].pending->try_finish()) {
      flights_.erase(flights_.begin() + static_cast<std::ptrdiff_t>(index));
      finish(node);
      any = true;
    } else {
      ++index;
    }
  }
  return any;
}

bool GraphRun::advance(ProgressSink* progress, std::atomic<std::uint64_t>& nodes_run) {
  while (left_ > 0) {
    if (!flights_.empty()) finish_arrived();
    if (ready_.empty()) {
      if (left_ == 0) return true;
      if (flights_.empty()) throw InternalError("a captured graph has a cycle");
      return false;
    }
    const std::size_t index = pick(ready_.size());
    const std::int32_t node = ready_[index];
    ready_[index] = ready_.back();
    ready_.pop_back();
    const Command& command = body_->command(node);
    label_ = command.call.label;
    if (progress != nullptr) progress->start_operation(label_);
    nodes_run.fetch_add(1, std::memory_order_relaxed);
    if (command.communication != nullptr) {
      auto pending = command.communication->start({.captured = true, .replay = replay_});
      if (pending->try_finish()) {
        finish(node);
      } else {
        flights_.push_back({node, std::move(pending)});
      }
    } else {
      run_command(command);
      finish(node);
    }
  }
  return true;
}

std::chrono::steady_clock::time_point GraphRun::deadline() const {
  auto earliest = std::chrono::steady_clock::time_point::max();
  for (const Flight& flight : flights_) earliest = std::min(earliest, flight.pending->deadline());
  return earliest;
}

void GraphRun::time_out() {
  const auto late =
      std::min_element(flights_.begin(), flights_.end(), [](const Flight& a, const Flight& b) {
        return a.pending->deadline() < b.pending->deadline();
      });
  label_ = body_->command(late->node).call.label;
  late->pending->time_out();
}

}  // namespace cgconform::workloads::reference

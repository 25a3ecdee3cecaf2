#include "workloads/capture/graph_ledger.hpp"

#include <algorithm>
#include <memory_resource>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "workloads/capture/edge_audit.hpp"

namespace cgconform::workloads {
namespace {

MemoryRange range_of(const TensorView& tensor) {
  const auto* begin = static_cast<const std::byte*>(tensor.data);
  return {begin, begin + tensor.bytes()};
}

}  // namespace

void GraphLedger::add_long_lived(const TensorView& tensor) {
  add_long_lived(tensor, context_.allocator().look_up(tensor.data).generation);
}

void GraphLedger::add_long_lived(const TensorView& tensor, std::uint64_t generation) {
  const MemoryRange range = range_of(tensor);
  long_lived_.push_back({range.begin, range.end, generation});
  long_lived_ranges_.add(range);
}

void GraphLedger::enter(std::int32_t index, std::span<const TensorView> inputs) {
  audit_edges(index);
  audit_unwritten_reads(index, inputs);
  Entry entry{index, {}};
  std::pmr::monotonic_buffer_resource memory;
  std::pmr::unordered_set<const void*> seen(&memory);
  const std::vector<GraphNode>& nodes =
      context_.record.graphs.at(static_cast<std::size_t>(index)).nodes;
  for (std::size_t node = 0; node < nodes.size(); ++node) {
    for (std::size_t operand = 0; operand < nodes[node].operands.size(); ++operand) {
      const TensorView& tensor = nodes[node].operands[operand].tensor;
      if (!tensor.valid() || !seen.insert(tensor.data).second) continue;
      entry.expected.push_back(
          {.node = static_cast<std::int32_t>(node), .operand = operand, .address = tensor.data});
    }
  }
  take_over(entry);
  entries_.push_back(std::move(entry));
}

void GraphLedger::open_captures(PoolId pool) {
  const Buffer probe(context_.allocator(), context_.stream(), pool, DType::uint8, Shape{1},
                     "probe");
  first_generation_ = probe.block().generation;
}

void GraphLedger::close_captures() {
  for (Entry& entry : entries_) {
    for (Expected& expected : entry.expected) {
      const AddressRecord now = context_.allocator().look_up(expected.address);
      const bool by_plan =
          now.generation == expected.at_capture.generation || now.generation >= first_generation_;
      if (by_plan && now.pool == expected.at_capture.pool && now.pool != default_pool) {
        expected.at_capture = now;
      }
    }
  }
}

void GraphLedger::check_before_launch(std::int32_t index, std::int32_t step) {
  if (!context_.recorder.instrumented()) return;
  const auto entry = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& e) { return e.graph == index; });
  if (entry == entries_.end()) return;
  for (const Expected& expected : entry->expected) {
    const AddressRecord now = context_.allocator().look_up(expected.address);
    if (now.state == AddressState::unknown || now.state == AddressState::guard) {
      report(expected, index, step, now, "not memory of the allocator");
      continue;
    }
    if (const LongLived* owner = long_lived(expected.address); owner != nullptr) {
      if (now.generation != owner->generation || now.state != AddressState::live) {
        report(expected, index, step, now, "long-lived memory was recycled");
      }
      continue;
    }
    if (now.generation != expected.at_capture.generation) {
      report(expected, index, step, now, "handed out again after capture");
    } else if (now.state != expected.at_capture.state) {
      report(expected, index, step, now, "freed after capture");
    }
  }
}

void GraphLedger::note_end_of_launches() {
  for (Entry& entry : entries_) {
    for (Expected& expected : entry.expected) {
      const AddressRecord now = context_.allocator().look_up(expected.address);
      expected.generation_at_end = now.state == AddressState::live ? now.generation : 0;
    }
  }
}

void GraphLedger::check_before_destruction(std::int32_t index) {
  const auto entry = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& e) { return e.graph == index; });
  if (entry == entries_.end()) return;
  TeardownRecord& teardown = context_.record.teardown;
  const GraphRecord& graph = context_.record.graphs.at(static_cast<std::size_t>(index));
  for (const Expected& expected : entry->expected) {
    if (expected.generation_at_end == 0) continue;
    ++teardown.operands;
    const AddressRecord now = context_.allocator().look_up(expected.address);
    if (now.state == AddressState::live && now.generation == expected.generation_at_end) continue;
    const GraphNode& node = graph.nodes.at(static_cast<std::size_t>(expected.node));
    teardown.lost_operands.push_back(
        fmt::format("graph '{}' node {} ({}) operand '{}': {}", graph.name, expected.node,
                    node.op_name.empty() ? std::string_view(node.label) : node.op_name,
                    node.operands.at(expected.operand).name,
                    now.state == AddressState::live ? "handed out again" : "freed"));
  }
}

void GraphLedger::audit_edges(std::int32_t index) {
  const std::vector<GraphNode>& nodes =
      context_.record.graphs.at(static_cast<std::size_t>(index)).nodes;
  for (const UnorderedPair& pair : find_unordered_pairs(nodes)) {
    const GraphNode& first = nodes[static_cast<std::size_t>(pair.first)];
    const GraphNode& second = nodes[static_cast<std::size_t>(pair.second)];
    context_.record.edge_findings.push_back(
        {.graph = index,
         .producer = pair.first,
         .consumer = pair.second,
         .operand = std::string(second.operands[pair.second_operand].name),
         .labels = fmt::format("{} | {}", first.label, second.label)});
  }
}

void GraphLedger::audit_unwritten_reads(std::int32_t index, std::span<const TensorView> inputs) {
  const std::vector<GraphNode>& nodes =
      context_.record.graphs.at(static_cast<std::size_t>(index)).nodes;
  RangeSet known;
  for (const TensorView& input : inputs) known.add(range_of(input));
  RangeSet reported;
  for (std::size_t node = 0; node < nodes.size(); ++node) {
    for (std::size_t operand = 0; operand < nodes[node].operands.size(); ++operand) {
      const Operand& used = nodes[node].operands[operand];
      if (!used.tensor.valid() || used.access == Access::write) continue;
      const MemoryRange range = range_of(used.tensor);
      if (known.begins_with(range) || long_lived_ranges_.begins_with(range)) continue;
      if (known.overlaps(range) || long_lived_ranges_.overlaps(range)) continue;
      if (reported.overlaps(range)) continue;
      const AddressRecord now = context_.allocator().look_up(used.tensor.data);
      if (now.pool == default_pool && now.state == AddressState::live) continue;
      report({.node = static_cast<std::int32_t>(node),
              .operand = operand,
              .address = used.tensor.data,
              .at_capture = now},
             index, -1, now, "read before anything in the graph has written it");
      reported.add(range);
    }
    for (const Operand& written : nodes[node].operands) {
      if (written.tensor.valid() && written.access != Access::read) {
        known.add(range_of(written.tensor));
      }
    }
  }
}

void GraphLedger::take_over(Entry& entry) {
  for (Expected& expected : entry.expected) {
    expected.at_capture = context_.allocator().look_up(expected.address);
  }
}

const GraphLedger::LongLived* GraphLedger::long_lived(const void* address) const {
  const auto* byte = static_cast<const std::byte*>(address);
  const auto owner = std::find_if(
      long_lived_.begin(), long_lived_.end(),
      [&](const LongLived& memory) { return memory.begin <= byte && byte < memory.end; });
  return owner == long_lived_.end() ? nullptr : &*owner;
}

void GraphLedger::report(const Expected& expected, std::int32_t graph, std::int32_t step,
                         const AddressRecord& now, std::string reason) {
  const GraphNode& node = context_.record.graphs.at(static_cast<std::size_t>(graph))
                              .nodes.at(static_cast<std::size_t>(expected.node));
  context_.record.address_findings.push_back(
      {.graph = graph,
       .node = expected.node,
       .op = std::string(node.op_name.empty() ? std::string_view(node.label) : node.op_name),
       .operand = std::string(node.operands.at(expected.operand).name),
       .step = step,
       .state = now.state,
       .captured_generation = expected.at_capture.generation,
       .current_generation = now.generation,
       .label = std::string(now.label),
       .reason = std::move(reason)});
}

}  // namespace cgconform::workloads

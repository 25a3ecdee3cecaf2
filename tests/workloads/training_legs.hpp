#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "matrix/cell.hpp"
#include "workloads/training/leg.hpp"

namespace cgconform::workloads::testing {

/// A small dense cell; tests change what they are about.
inline matrix::Cell small_cell(matrix::CudaGraphImpl impl = matrix::CudaGraphImpl::none) {
  matrix::Cell cell;
  cell.config.cuda_graph_impl = impl;
  cell.config.cuda_graph_warmup_steps = 1;
  cell.config.use_te_rng_tracker = true;
  cell.config.te_rng_tracker = true;
  cell.config.check_for_nan_in_loss = false;
  cell.config.num_layers = 2;
  cell.config.hidden_size = 8;
  cell.config.num_attention_heads = 2;
  cell.config.seq_length = 8;
  cell.config.micro_batch_size = 2;
  cell.config.num_microbatches = 3;
  cell.config.attention_dropout = 0.1F;
  cell.config.hidden_dropout = 0.1F;
  cell.shape.vocab_size = 16;
  cell.shape.ffn_hidden_size = 16;
  cell.shape.steps = 4;
  return cell;
}

/// Identity of an observation: what, where, and the how manieth of the same.
using ObservationKey = std::tuple<ObservedQuantity, std::int32_t, std::int32_t, std::int32_t, bool,
                                  std::string, std::int32_t>;
using ObservedBytes = std::map<ObservationKey, std::vector<std::byte>>;

inline ObservedBytes bytes_of(const LegRecord& record, Device& device) {
  ObservedBytes all;
  const std::unique_ptr<Stream> stream = device.create_stream("test download");
  std::map<ObservationKey, std::int32_t> seen;
  for (const Observation& observation : record.observations) {
    const TensorLocation& where = observation.where;
    ObservationKey key{
        observation.quantity, where.step, where.microbatch, where.layer, where.validation,
        where.tensor,         0};
    std::get<6>(key) = seen[key]++;
    const TensorView& view = observation.snapshot.view();
    std::vector<std::byte> bytes(static_cast<std::size_t>(view.bytes()));
    stream->download(bytes.data(), view);
    all.emplace(std::move(key), std::move(bytes));
  }
  return all;
}

inline std::string key_text(const ObservationKey& key) {
  return std::get<5>(key) + " step " + std::to_string(std::get<1>(key)) + " mb " +
         std::to_string(std::get<2>(key)) + " layer " + std::to_string(std::get<3>(key));
}

/// Observations of `actual` that differ from the same of `expected`, as text; where `complete`,
/// also those that only one of them has.
inline std::vector<std::string> differences(const ObservedBytes& expected,
                                            const ObservedBytes& actual, bool complete = true) {
  std::vector<std::string> texts;
  for (const auto& [key, bytes] : expected) {
    const auto found = actual.find(key);
    if (found == actual.end()) {
      if (complete) texts.push_back("missing: " + key_text(key));
    } else if (found->second != bytes) {
      texts.push_back("differs: " + key_text(key));
    }
  }
  for (const auto& [key, bytes] : actual) {
    if (!expected.contains(key)) texts.push_back("unexpected: " + key_text(key));
  }
  return texts;
}

inline std::size_t count_of(const LegRecord& record, ObservedQuantity quantity) {
  std::size_t count = 0;
  for (const Observation& observation : record.observations) {
    if (observation.quantity == quantity) ++count;
  }
  return count;
}

inline std::size_t changed_slots(const LegRecord& record, SlotKind kind) {
  std::size_t count = 0;
  for (const SlotRecord& slot : record.slots) {
    if (slot.kind == kind && slot.hash_at_production != slot.hash_at_use) ++count;
  }
  return count;
}

/// A device and legs on it; the cell has one rank.
class OneRankLegs : public ::testing::Test {
 protected:
  LegRecord run(const matrix::Cell& cell, const LegRequest& request, Sabotage sabotage) {
    return run(cell, request, FaultSwitches{}, sabotage);
  }
  LegRecord run(const matrix::Cell& cell, const LegRequest& request, FaultSwitches faults = {},
                Sabotage sabotage = Sabotage::none) {
    return run_leg(cell, request,
                   {.device = *device_, .seed = 11, .faults = faults, .sabotage = sabotage});
  }
  LegRecord run(const matrix::Cell& cell, const LegRequest& request, Fault fault) {
    FaultSwitches faults;
    faults.turn_on(fault);
    return run(cell, request, faults);
  }
  Device& device() { return *device_; }

  static constexpr LegRequest eager{};
  static constexpr LegRequest graph{.kind = LegKind::graph, .replay_seed = 5};
  static constexpr LegRequest instrumented_eager{.instrumented = true};
  static constexpr LegRequest instrumented_graph{
      .kind = LegKind::graph, .instrumented = true, .replay_seed = 6};

 private:
  std::unique_ptr<Device> device_ = create_reference_device({.arena_bytes = 64 << 20});
};

/// Fails where the ledger, the edge audit, a slot, a guard band or the teardown of a leg has a
/// finding, and where no slot was looked at.
inline void expect_no_findings(const LegRecord& record) {
  for (const AddressFinding& finding : record.address_findings) {
    ADD_FAILURE() << finding.reason << ": " << finding.op << " " << finding.operand << " "
                  << finding.label << " step " << finding.step;
  }
  for (const EdgeFinding& finding : record.edge_findings) {
    ADD_FAILURE() << finding.operand << ": " << finding.labels;
  }
  EXPECT_FALSE(record.slots.empty());
  for (const SlotRecord& slot : record.slots) {
    EXPECT_EQ(slot.hash_at_production, slot.hash_at_use) << slot.where.tensor;
  }
  EXPECT_TRUE(record.damaged_guards.empty());
  EXPECT_EQ(record.live_bytes_after_teardown, 0);
}

}  // namespace cgconform::workloads::testing

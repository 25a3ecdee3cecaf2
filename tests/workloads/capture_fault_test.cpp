#include <algorithm>
#include <csignal>

#include "tests/workloads/training_legs.hpp"
#include "workloads/faults/fault_table.hpp"

namespace cgconform::workloads {
namespace {

using matrix::CudaGraphImpl;
using testing::small_cell;

/// What the records of a leg with the fault must show, besides that the training went wrong.
enum class Evidence : std::uint8_t { input_slot, activation_slot, weight_grad_slot, address, edge };

struct Expectation {
  Fault fault;
  Evidence evidence;
};

std::size_t evidence_in(const LegRecord& record, Evidence evidence) {
  switch (evidence) {
    case Evidence::input_slot:
      return testing::changed_slots(record, SlotKind::static_input);
    case Evidence::activation_slot:
      return testing::changed_slots(record, SlotKind::saved_activation);
    case Evidence::weight_grad_slot:
      return testing::changed_slots(record, SlotKind::weight_grad);
    case Evidence::address:
      return record.address_findings.size();
    case Evidence::edge:
      return record.edge_findings.size();
  }
  return 0;
}

class FaultsOfGraphs : public testing::OneRankLegs {
 protected:
  /// The implementations in which the fault has something to corrupt.
  static std::vector<CudaGraphImpl> implementations(Fault fault) {
    std::vector<CudaGraphImpl> impls;
    for (const CudaGraphImpl impl : {CudaGraphImpl::local, CudaGraphImpl::full_iteration}) {
      if (fault_row(fault).applies(small_cell(impl))) impls.push_back(impl);
    }
    return impls;
  }

  std::vector<std::string> damage(const matrix::Cell& cell, const LegRecord& record) {
    return testing::differences(testing::bytes_of(run(cell, instrumented_eager), device()),
                                testing::bytes_of(record, device()));
  }
};

class FaultWithEvidence : public FaultsOfGraphs,
                          public ::testing::WithParamInterface<Expectation> {};

TEST_P(FaultWithEvidence, CorruptsTheTrainingAndLeavesItsTrace) {
  const auto impls = implementations(GetParam().fault);
  ASSERT_FALSE(impls.empty());
  for (const CudaGraphImpl impl : impls) {
    const matrix::Cell cell = small_cell(impl);
    const std::string where = impl == CudaGraphImpl::local ? "local" : "full_iteration";
    const LegRecord record = run(cell, instrumented_graph, GetParam().fault);
    ASSERT_EQ(record.error, "") << where;
    EXPECT_FALSE(damage(cell, record).empty()) << where;
    EXPECT_GT(evidence_in(record, GetParam().evidence), 0U) << where;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Table, FaultWithEvidence,
    ::testing::Values(
        Expectation{Fault::f01a_batch_in_new_block, Evidence::input_slot},
        Expectation{Fault::f01b_optional_input_not_refreshed, Evidence::input_slot},
        Expectation{Fault::f01c_stale_padding_rows, Evidence::input_slot},
        Expectation{Fault::f01d_staging_overwritten, Evidence::input_slot},
        Expectation{Fault::f02a_freed_temporary, Evidence::address},
        Expectation{Fault::f02c_workspace_fill_outside, Evidence::address},
        Expectation{Fault::f02d_table_in_graph_pool, Evidence::address},
        Expectation{Fault::f02e_host_record_freed, Evidence::address},
        Expectation{Fault::f04b_weight_grad_slot_handed_out, Evidence::weight_grad_slot},
        Expectation{Fault::f04c_swapped_grad_slots, Evidence::weight_grad_slot},
        Expectation{Fault::f04d_eager_backward_reads_capture_slots, Evidence::activation_slot}),
    [](const auto& row) { return std::string(fault_row(row.param.fault).id); });

/// A missing edge is certain in the graph itself, whatever a replay's order makes of it.
class FaultInEdges : public FaultsOfGraphs, public ::testing::WithParamInterface<Fault> {};

TEST_P(FaultInEdges, IsFoundInEveryGraphThatHasIt) {
  for (const CudaGraphImpl impl : implementations(GetParam())) {
    for (const LegRequest& request : {graph, instrumented_graph}) {
      const LegRecord record = run(small_cell(impl), request, GetParam());
      ASSERT_EQ(record.error, "");
      EXPECT_FALSE(record.edge_findings.empty());
    }
  }
}

TEST_P(FaultInEdges, CorruptsTheTrainingInSomeOrderOfReplay) {
  for (const CudaGraphImpl impl : implementations(GetParam())) {
    const matrix::Cell cell = small_cell(impl);
    const auto expected = testing::bytes_of(run(cell, eager), device());
    bool corrupted = false;
    for (std::uint64_t seed = 0; seed < 20 && !corrupted; ++seed) {
      FaultSwitches faults;
      faults.turn_on(GetParam());
      const LegRecord record = run(cell, {.kind = LegKind::graph, .replay_seed = seed}, faults);
      corrupted =
          !testing::differences(expected, testing::bytes_of(record, device()), false).empty();
    }
    EXPECT_TRUE(corrupted);
  }
}

INSTANTIATE_TEST_SUITE_P(Table, FaultInEdges,
                         ::testing::Values(Fault::f17a_wait_dropped, Fault::f17b_free_without_edge,
                                           Fault::f17c_fan_out_edge_removed),
                         [](const auto& row) { return std::string(fault_row(row.param).id); });

class FaultInGradients : public FaultsOfGraphs, public ::testing::WithParamInterface<Fault> {};

TEST_P(FaultInGradients, ShowsFirstInAccumulatedGradients) {
  for (const CudaGraphImpl impl : implementations(GetParam())) {
    const matrix::Cell cell = small_cell(impl);
    const LegRecord record = run(cell, instrumented_graph, GetParam());
    ASSERT_EQ(record.error, "");
    EXPECT_EQ(testing::changed_slots(record, SlotKind::weight_grad), 0U);
    EXPECT_TRUE(record.address_findings.empty());
    const auto expected = testing::bytes_of(run(cell, instrumented_eager), device());
    std::int32_t first_wrong_gradient = 1000;
    std::int32_t first_wrong_activation = 1000;
    for (const auto& [key, bytes] : testing::bytes_of(record, device())) {
      if (expected.at(key) == bytes) continue;
      std::int32_t& first = std::get<0>(key) == ObservedQuantity::main_grad ? first_wrong_gradient
                            : std::get<0>(key) == ObservedQuantity::layer_output
                                ? first_wrong_activation
                                : first_wrong_gradient;
      first = std::min(first, std::get<1>(key));
    }
    EXPECT_LT(first_wrong_gradient, 1000);
    EXPECT_LT(first_wrong_gradient, first_wrong_activation);
  }
}

INSTANTIATE_TEST_SUITE_P(Table, FaultInGradients,
                         ::testing::Values(Fault::f14a_overwrite_instead_of_accumulate,
                                           Fault::f14b_accumulate_never_zeroed,
                                           Fault::f14c_grad_added_flag_only_in_capture,
                                           Fault::f14d_parameter_left_out),
                         [](const auto& row) { return std::string(fault_row(row.param).id); });

class FaultInRandomness : public FaultsOfGraphs, public ::testing::WithParamInterface<Fault> {};

TEST_P(FaultInRandomness, DrawsTheSameMaskAtEveryReplay) {
  for (const CudaGraphImpl impl : implementations(GetParam())) {
    const matrix::Cell cell = small_cell(impl);
    const LegRecord record = run(cell, instrumented_graph, GetParam());
    ASSERT_EQ(record.error, "");
    const std::int32_t last = record.executions.back().step;
    std::size_t masks = 0;
    const auto bytes = testing::bytes_of(record, device());
    for (const auto& [key, mask] : bytes) {
      if (std::get<0>(key) != ObservedQuantity::dropout_mask || std::get<1>(key) != last) continue;
      auto before = key;
      std::get<1>(before) = last - 1;
      EXPECT_EQ(bytes.at(before), mask) << testing::key_text(key);
      ++masks;
    }
    EXPECT_GT(masks, 0U);
    EXPECT_FALSE(damage(cell, record).empty());
  }
}

INSTANTIATE_TEST_SUITE_P(Table, FaultInRandomness,
                         ::testing::Values(Fault::f07a_offset_by_value,
                                           Fault::f07b_offset_not_advanced,
                                           Fault::f07c_graph_safe_request_dropped),
                         [](const auto& row) { return std::string(fault_row(row.param).id); });

TEST_F(FaultsOfGraphs, MasksOfSuccessiveReplaysDifferWithoutFault) {
  for (const CudaGraphImpl impl : {CudaGraphImpl::local, CudaGraphImpl::full_iteration}) {
    const LegRecord record = run(small_cell(impl), instrumented_graph);
    const std::int32_t last = record.executions.back().step;
    const auto bytes = testing::bytes_of(record, device());
    for (const auto& [key, mask] : bytes) {
      if (std::get<0>(key) != ObservedQuantity::dropout_mask || std::get<1>(key) != last) continue;
      auto before = key;
      std::get<1>(before) = last - 1;
      EXPECT_NE(bytes.at(before), mask) << testing::key_text(key);
    }
  }
}

TEST_F(FaultsOfGraphs, AnUnmappedTemporaryFaultsInTheArena) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (const CudaGraphImpl impl : implementations(Fault::f02b_unmapped_temporary)) {
    EXPECT_EXIT(run(small_cell(impl), graph, Fault::f02b_unmapped_temporary),
                ::testing::KilledBySignal(SIGSEGV), "");
  }
}

TEST_F(FaultsOfGraphs, FaultsLeaveEagerLegsAlone) {
  const matrix::Cell cell = small_cell(CudaGraphImpl::local);
  const auto expected = testing::bytes_of(run(cell, eager), device());
  for (const FaultRow& row : fault_table()) {
    const LegRecord record = run(cell, eager, row.fault);
    EXPECT_EQ(record.error, "") << row.id;
    EXPECT_EQ(testing::differences(expected, testing::bytes_of(record, device())),
              std::vector<std::string>{})
        << row.id;
  }
}

}  // namespace
}  // namespace cgconform::workloads

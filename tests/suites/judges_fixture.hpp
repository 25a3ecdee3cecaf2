#pragma once

#include <functional>
#include <string_view>

#include <gtest/gtest.h>

#include "matrix/error.hpp"
#include "suites/cell_plan.hpp"
#include "suites/comparison.hpp"
#include "tests/suites/synthetic_legs.hpp"

namespace cgconform::suites {

using workloads::LegKind;

/// Runs a cell on synthetic legs of which some are broken.
class JudgesTest : public testing::Test {
 protected:
  using Break = std::function<void(const LegRequest&, LegRecord&)>;

  RankReport run(const Break& break_leg, const matrix::Cell& cell = SyntheticLegs::cell()) {
    const auto comparator = create_device_comparator(legs_.device());
    const LegSource source = [&](const matrix::Cell& asked, const LegRequest& request) {
      LegRecord record = legs_.healthy(asked, request);
      break_leg(request, record);
      return record;
    };
    return run_cell(cell, {.cell_id = "synthetic"}, source, {legs_.device(), *comparator});
  }

  /// Breaks graph legs only, those that observe tensors.
  RankReport run_broken_graph(const std::function<void(LegRecord&)>& break_graph) {
    return run([&](const LegRequest& request, LegRecord& record) {
      if (request.kind == LegKind::graph && request.cycles == 0) break_graph(record);
    });
  }

  /// Breaks the instrumented graph leg only.
  RankReport run_broken_instrumented(const std::function<void(LegRecord&)>& break_graph) {
    return run([&](const LegRequest& request, LegRecord& record) {
      if (request.kind == LegKind::graph && request.instrumented) break_graph(record);
    });
  }

  static bool is_plain_graph(const LegRequest& request) {
    return request.kind == LegKind::graph && request.cycles == 0 && !request.instrumented;
  }

  static const CheckResult* find(const RankReport& report, std::string_view id) {
    for (const CheckResult& check : report.checks) {
      if (check.check_id == id) return &check;
    }
    return nullptr;
  }

  static void expect(const RankReport& report, Verdict verdict, std::string_view check_id) {
    const CheckResult* deciding = deciding_check(report.checks);
    ASSERT_NE(deciding, nullptr) << "nothing failed";
    EXPECT_EQ(deciding->verdict, verdict) << deciding->check_id << ": " << deciding->detail;
    EXPECT_EQ(deciding->check_id, check_id) << deciding->detail;
  }

  void change(LegRecord& record, ObservedQuantity quantity, std::int32_t step) {
    legs_.write(SyntheticLegs::find(record, quantity, step).snapshot.view(), -1.0F);
  }

  SyntheticLegs legs_;
};

}  // namespace cgconform::suites

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "suites/cell_plan.hpp"
#include "suites/check.hpp"
#include "suites/leg_set.hpp"
#include "tests/build_paths.hpp"
#include "tests/suites/gang_scenario.hpp"
#include "tests/suites/synthetic_legs.hpp"

namespace cgconform::suites {
namespace {

TEST(CheckCatalogue, Holds177ChecksOfTenFamilies) {
  std::map<CheckFamily, int> families;
  std::set<std::string_view> ids;
  for (const CatalogueRow& row : check_catalogue()) {
    ++families[row.family];
    EXPECT_TRUE(ids.insert(row.id).second) << row.id;
    EXPECT_TRUE(row.id.starts_with(family_name(row.family))) << row.id;
    EXPECT_FALSE(row.statement.empty()) << row.id;
    EXPECT_FALSE(row.oracle.empty()) << row.id;
  }
  EXPECT_EQ(ids.size(), 177U);
  EXPECT_EQ(families[CheckFamily::con], 26);
  EXPECT_EQ(families[CheckFamily::num], 34);
  EXPECT_EQ(families[CheckFamily::mem], 19);
  EXPECT_EQ(families[CheckFamily::com], 32);
  EXPECT_EQ(families[CheckFamily::lif], 18);
  EXPECT_EQ(families[CheckFamily::ccy], 14);
  EXPECT_EQ(families[CheckFamily::prf], 11);
  EXPECT_EQ(families[CheckFamily::ctl], 7);
  EXPECT_EQ(families[CheckFamily::tlg], 6);
  EXPECT_EQ(families[CheckFamily::sui], 10);
}

TEST(CheckCatalogue, RefusesAnIdItDoesNotHold) {
  EXPECT_THROW(catalogue_row("NUM-99"), InternalError);
}

/// With CGCONFORM_UPDATE_DOCS set the document is written anew.
TEST(CheckCatalogue, DocumentEqualsTheTable) {
  const std::string path = std::string(CGCONFORM_SOURCE_DIR) + "/docs/checks.md";
  if (std::getenv("CGCONFORM_UPDATE_DOCS") != nullptr) std::ofstream(path) << checks_markdown();
  std::ifstream file(path);
  const std::string document{std::istreambuf_iterator<char>(file), {}};
  EXPECT_TRUE(document == checks_markdown())
      << path << " differs from the table; run this test with CGCONFORM_UPDATE_DOCS=1";
}

TEST(CheckTable, HoldsEachCheckOnceInTheOrderOfTheCatalogue) {
  std::size_t place = 0;
  const auto catalogue = check_catalogue();
  for (const CheckDefinition& check : check_table()) {
    while (place < catalogue.size() && catalogue[place].id != check.id) ++place;
    ASSERT_LT(place, catalogue.size()) << check.id << " stands twice or out of order";
    EXPECT_EQ(check.statement, catalogue[place].statement);
    EXPECT_EQ(check.family, catalogue[place].family);
    ++place;
  }
}

TEST(CheckTable, EveryCheckHasWhatItsSubjectNeeds) {
  for (const CheckDefinition& check : check_table()) {
    const bool judged_on_legs = check.subject == CheckSubject::cell;
    const bool scenario = check.subject == CheckSubject::run_scenario ||
                          check.subject == CheckSubject::gang_scenario ||
                          check.subject == CheckSubject::device_scenario;
    EXPECT_EQ(check.applies != nullptr, judged_on_legs) << check.id;
    EXPECT_EQ(check.legs != nullptr, judged_on_legs) << check.id;
    EXPECT_EQ(check.judge != nullptr, judged_on_legs) << check.id;
    // A check on cells or of the runner may have a scenario, too.
    if (!judged_on_legs && check.subject != CheckSubject::runner) {
      EXPECT_EQ(check.scenario != nullptr, scenario) << check.id;
    }
    EXPECT_LT(cause_rank(check.failure), cause_order().size()) << check.id;
    EXPECT_EQ(find_check(check.id), &check);
  }
  EXPECT_EQ(find_check("NUM-99"), nullptr);
}

TEST(CheckTable, BuildsTheChecksOfTheFirstRelease) {
  for (const char* id :
       {"CON-01", "CON-02", "CON-08", "CON-14", "CON-20", "CON-22", "CON-23", "NUM-01",
        "NUM-02", "NUM-03", "NUM-04", "NUM-08", "MEM-07", "MEM-09", "LIF-01", "LIF-02",
        "LIF-17", "TLG-03", "SUI-01", "SUI-02", "SUI-03", "SUI-04", "SUI-05"}) {
    EXPECT_NE(find_check(id), nullptr) << id;
  }
}

TEST(Scenarios, AllPassOnTheReferenceDevice) {
  const auto device = workloads::create_reference_device({});
  ScenarioContext on_device{.device = device.get(),
                            .seed = 2,
                            .start_children = [](const std::vector<ChildRequest>& requests) {
                              return std::vector<ChildOutcome>(requests.size(),
                                                               {.end = ChildEnd::hung});
                            }};
  const RankReport device_report = run_scenarios(CheckSubject::device_scenario, on_device);
  EXPECT_EQ(device_report.device, "reference");
  ScenarioContext on_host{.seed = 2};
  const RankReport host_report = run_scenarios(CheckSubject::run_scenario, on_host);
  for (const RankReport* report : {&device_report, &host_report}) {
    EXPECT_FALSE(report->checks.empty());
    for (const CheckResult& check : report->checks) {
      // It compares other devices with this one.
      const Verdict expected = check.check_id == "NUM-34" ? Verdict::skip : Verdict::pass;
      EXPECT_EQ(check.verdict, expected) << check.check_id << ": " << check.detail;
    }
  }
}

TEST(Scenarios, OfAGangAllPassOnTwoRanks) {
  const auto reports = run_gang(
      [](ScenarioContext& context) { return run_scenarios(CheckSubject::gang_scenario, context); });
  for (const RankReport& report : reports) {
    EXPECT_GE(report.checks.size(), 3U);
    for (const CheckResult& check : report.checks) {
      EXPECT_EQ(check.verdict, Verdict::pass) << check.check_id << ": " << check.detail;
    }
  }
}

/// Passes calls on, but lets a captured all-reduce take the largest number for the sum.
class WrongInGraphs final : public workloads::Communicator {
 public:
  explicit WrongInGraphs(std::unique_ptr<workloads::Communicator> right)
      : right_(std::move(right)) {}
  int rank() const override { return right_->rank(); }
  int size() const override { return right_->size(); }
  const std::string& name() const override { return right_->name(); }
  void send(const workloads::TensorView& tensor, int peer, workloads::Stream& stream,
            std::string label) override {
    right_->send(tensor, peer, stream, std::move(label));
  }
  void receive(const workloads::TensorView& tensor, int peer, workloads::Stream& stream,
               std::string label) override {
    right_->receive(tensor, peer, stream, std::move(label));
  }
  void all_reduce(const workloads::TensorView& destination, const workloads::TensorView& source,
                  workloads::ReduceOp op, workloads::Stream& stream, std::string label) override {
    const bool captured = stream.capture_status() != workloads::CaptureStatus::none;
    right_->all_reduce(destination, source, captured ? workloads::ReduceOp::max : op, stream,
                       std::move(label));
  }
  void broadcast(const workloads::TensorView& tensor, int root, workloads::Stream& stream,
                 std::string label) override {
    right_->broadcast(tensor, root, stream, std::move(label));
  }
  void all_gather(const workloads::TensorView& destination, const workloads::TensorView& source,
                  workloads::Stream& stream, std::string label) override {
    right_->all_gather(destination, source, stream, std::move(label));
  }
  void reduce_scatter(const workloads::TensorView& destination, const workloads::TensorView& source,
                      workloads::Stream& stream, std::string label) override {
    right_->reduce_scatter(destination, source, stream, std::move(label));
  }
  std::vector<std::string> exchange(const std::string& mine) override {
    return right_->exchange(mine);
  }
  std::unique_ptr<workloads::Communicator> split(int color, const std::string& name) override {
    return right_->split(color, name);
  }
  workloads::ErrorCategory async_error() const override { return right_->async_error(); }
  int live_graph_references() const override { return right_->live_graph_references(); }

 private:
  std::unique_ptr<workloads::Communicator> right_;
};

TEST(Scenarios, OfAGangFailWhereTheCommunicatorIsWrongInGraphs) {
  const auto reports = run_gang([](ScenarioContext& context) {
    const auto right = context.communicator;
    context.communicator = [&right](const std::string& name) {
      return std::make_unique<WrongInGraphs>(right(name));
    };
    return run_scenarios(CheckSubject::gang_scenario, context);
  });
  for (const RankReport& report : reports) {
    for (const CheckResult& check : report.checks) {
      // The one does not communicate in graphs, the other compares graphs with themselves.
      const bool communicates_in_graphs = check.check_id != "NUM-11" && check.check_id != "LIF-10";
      EXPECT_EQ(check.verdict,
                communicates_in_graphs ? Verdict::fail_numeric_mismatch : Verdict::pass)
          << check.check_id;
    }
  }
}

TEST(Scenarios, AScenarioThatThrowsFailsWithItsCheck) {
  const CheckDefinition throws{
      .id = "LIF-02",
      .subject = CheckSubject::device_scenario,
      .failure = Verdict::fail_capture,
      .scenario = [](ScenarioContext&) -> CheckResult { throw InternalError("no way on"); }};
  ScenarioContext context;
  const RankReport report =
      run_scenarios(CheckSubject::device_scenario, context, std::span(&throws, 1));
  ASSERT_EQ(report.checks.size(), 1U);
  EXPECT_EQ(report.checks[0].verdict, Verdict::fail_capture);
  EXPECT_EQ(report.checks[0].check_id, "LIF-02");
  EXPECT_EQ(report.checks[0].detail, "no way on");
}

TEST(CellPlan, MergesEqualLegsOfAllChecks) {
  const CellPlan plan = plan_cell(SyntheticLegs::cell(), check_table());
  EXPECT_GE(plan.legs.size(), 5U);
  const std::set<LegRequest> unique(plan.legs.begin(), plan.legs.end());
  EXPECT_EQ(unique.size(), plan.legs.size());
  EXPECT_TRUE(unique.contains(graph_leg())) << "one judged graph leg runs without instruments";
  for (const CheckDefinition* check : plan.checks) {
    for (const LegRequest& leg : check->legs(SyntheticLegs::cell())) {
      EXPECT_TRUE(unique.contains(leg)) << check->id;
    }
  }
}

TEST(CellPlan, RunsNoGraphLegForACellWithoutGraphs) {
  matrix::Cell cell = SyntheticLegs::cell();
  cell.config.cuda_graph_impl = matrix::CudaGraphImpl::none;
  for (const LegRequest& leg : plan_cell(cell, check_table()).legs) {
    EXPECT_EQ(leg.kind, workloads::LegKind::eager);
  }
}

TEST(CellPlan, LeavesOutChecksThatDoNotApply) {
  matrix::Cell cell = SyntheticLegs::cell();
  cell.config.num_microbatches = 2;
  cell.config.hidden_dropout = 0.0F;
  cell.config.attention_dropout = 0.0F;
  for (const CheckDefinition* check : plan_cell(cell, check_table()).checks) {
    EXPECT_NE(check->id, "NUM-04");
    EXPECT_NE(check->id, "NUM-08");
  }
}

TEST(CellPlan, DigestChangesWithCellSeedChecksAndLegs) {
  const CellPlan plan = plan_cell(SyntheticLegs::cell(), check_table());
  const std::string digest = plan_digest(plan, "impl=local", 1);
  EXPECT_EQ(digest.size(), 16U);
  EXPECT_EQ(plan_digest(plan, "impl=local", 1), digest);
  EXPECT_NE(plan_digest(plan, "impl=none", 1), digest);
  EXPECT_NE(plan_digest(plan, "impl=local", 2), digest);
  CellPlan fewer = plan;
  fewer.checks.pop_back();
  EXPECT_NE(plan_digest(fewer, "impl=local", 1), digest);
  CellPlan shorter = plan;
  shorter.legs.pop_back();
  EXPECT_NE(plan_digest(shorter, "impl=local", 1), digest);
}

}  // namespace
}  // namespace cgconform::suites

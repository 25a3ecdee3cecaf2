#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "suites/checks/constraint_audits.hpp"
#include "suites/checks/constraint_cases.hpp"
#include "suites/checks/expansion_audit.hpp"
#include "suites/checks/families.hpp"
#include "suites/checks/selection_checks.hpp"
#include "suites/rank_vote.hpp"

namespace cgconform::suites::checks {
namespace {

using testing::HasSubstr;

TEST(ConstraintChecks, AllPass) {
  ScenarioContext context{.seed = 1};
  ASSERT_EQ(constraint_checks().size(), 22U);
  for (const CheckDefinition& check : constraint_checks()) {
    const CheckResult result = check.scenario(context);
    EXPECT_EQ(result.verdict, Verdict::pass) << check.id << ": " << result.detail;
  }
}

TEST(ConstraintChecks, DetectALegalConfigurationThatIsRefused) {
  matrix::TrainingConfig config = legal_local();
  config.use_te_rng_tracker = false;
  const CheckResult result = judge_cases({{"said to be legal", config, {}, ""}}, {});
  EXPECT_EQ(result.verdict, Verdict::fail_constraint_admitted);
  EXPECT_THAT(result.detail, HasSubstr("rng-te-tracker-required"));
}

TEST(ConstraintChecks, DetectAnIllegalConfigurationThatIsAdmitted) {
  const CheckResult result =
      judge_cases({{"said to be illegal", legal_local(), {}, "moe-xor-router"}}, {});
  EXPECT_EQ(result.verdict, Verdict::fail_constraint_admitted);
  EXPECT_THAT(result.detail, HasSubstr("admitted"));
}

TEST(ConstraintChecks, DetectARefusalByAnotherRule) {
  matrix::TrainingConfig config = legal_local();
  config.cpu_offloading = true;
  const CheckResult result = judge_cases({{"wrong rule", config, {}, "moe-xor-router"}}, {});
  EXPECT_EQ(result.verdict, Verdict::fail_constraint_admitted);
  EXPECT_THAT(result.detail, HasSubstr("only cpu-offload-per-layer did"));
}

TEST(SelectionChecks, PassOnThePlanItself) {
  ScenarioContext context{.seed = 1};
  const CheckResult selection = judge_selection(context);
  EXPECT_EQ(selection.verdict, Verdict::pass) << selection.detail;
  const CheckResult empty = judge_empty_selection(context);
  EXPECT_EQ(empty.verdict, Verdict::pass) << empty.detail;
}

TEST(RankVote, NamesTheRankThatDiffersFromMost) {
  const auto odd_of = [](std::vector<std::string> answers) {
    const auto odd = find_odd_rank(answers);
    return odd ? static_cast<int>(odd->rank) : -1;
  };
  EXPECT_EQ(odd_of({"a", "a", "a"}), -1);
  EXPECT_EQ(odd_of({"b", "a", "a"}), 0);
  EXPECT_EQ(odd_of({"a", "a", "b"}), 2);
  EXPECT_EQ(odd_of({"a", "b"}), 1);
  EXPECT_EQ(odd_of({"a"}), -1);
  EXPECT_EQ(odd_of({}), -1);
}

TEST(ExpansionAudit, CountsEveryCellOnceInAStableOrder) {
  const matrix::Expansion smoke(matrix::load_matrix("smoke"));
  std::optional<std::string> problem;
  const std::uint64_t stride = smoke.size() / 5000;
  const ExpansionCount first = count_expansion(smoke, stride, problem);
  const ExpansionCount again = count_expansion(smoke, stride, problem);
  EXPECT_EQ(problem, std::nullopt);
  EXPECT_EQ(first.total, (smoke.size() + stride - 1) / stride);
  EXPECT_EQ(first.run + first.refused + first.skipped, first.total);
  EXPECT_GT(first.run, 0U);
  EXPECT_GT(first.refused, 0U);
  EXPECT_GT(first.skipped, 0U);
  EXPECT_EQ(first.digest, again.digest);
}

TEST(ExpansionAudit, SeesWhenCellsChange) {
  std::optional<std::string> problem;
  const matrix::Expansion smoke(matrix::load_matrix("smoke"));
  const std::uint64_t stride = smoke.size() / 1000;
  EXPECT_NE(count_expansion(smoke, stride, problem).digest,
            count_expansion(smoke, stride + 1, problem).digest);
}

}  // namespace
}  // namespace cgconform::suites::checks

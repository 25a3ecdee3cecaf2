#include "suites/verdict.hpp"

#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "tests/build_paths.hpp"

namespace cgconform::suites {
namespace {

TEST(VerdictTable, NamesAreUniqueAndParseBackToTheirVerdict) {
  std::set<std::string_view> names;
  for (const VerdictRow& row : verdict_table()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_EQ(parse_verdict(row.name), row.verdict);
    EXPECT_EQ(verdict_name(row.verdict), row.name);
    EXPECT_FALSE(row.meaning.empty()) << row.name;
  }
}

TEST(VerdictTable, RefusesNamesThatAreNoVerdict) {
  EXPECT_EQ(parse_verdict("pass"), std::nullopt);
  EXPECT_EQ(parse_verdict(""), std::nullopt);
}

TEST(VerdictTable, EveryNameThatSaysFailIsBad) {
  for (const VerdictRow& row : verdict_table()) {
    if (!row.name.starts_with("FAIL_")) continue;
    EXPECT_TRUE(is_bad(row.verdict)) << row.name;
  }
  EXPECT_TRUE(is_bad(Verdict::crash));
  EXPECT_TRUE(is_bad(Verdict::hang));
  EXPECT_TRUE(is_bad(Verdict::flaky));
  EXPECT_FALSE(is_bad(Verdict::pass));
  EXPECT_FALSE(is_bad(Verdict::skip));
  EXPECT_FALSE(is_bad(Verdict::inconclusive_env));
}

TEST(CauseOrder, HoldsEveryFailingVerdictOnce) {
  std::set<Verdict> seen;
  for (const Verdict verdict : cause_order()) EXPECT_TRUE(seen.insert(verdict).second);
  for (const VerdictRow& row : verdict_table()) {
    const bool failing =
        row.verdict_class == VerdictClass::bad || row.verdict_class == VerdictClass::environment;
    EXPECT_EQ(seen.contains(row.verdict), failing) << row.name;
  }
}

TEST(CauseOrder, PutsNamedCausesBeforeTheCoarseMismatch) {
  for (const Verdict cause :
       {Verdict::fail_illegal_access, Verdict::fail_stale_address, Verdict::fail_missing_edge,
        Verdict::fail_stale_input, Verdict::fail_overwrite, Verdict::fail_rng_state,
        Verdict::fail_grad_accum, Verdict::fail_capture, Verdict::fail_coverage}) {
    EXPECT_LT(cause_rank(cause), cause_rank(Verdict::fail_numeric_mismatch)) << verdict_name(cause);
  }
  EXPECT_GT(cause_rank(Verdict::pass), cause_rank(Verdict::fail_numeric_mismatch));
}

TEST(VerdictTable, StandsWholeInTheDocumentOfReports) {
  std::ifstream file(std::string(CGCONFORM_SOURCE_DIR) + "/docs/reports.md");
  const std::string document{std::istreambuf_iterator<char>(file), {}};
  for (const VerdictRow& row : verdict_table()) {
    EXPECT_NE(document.find("| `" + std::string(row.name) + "` | "), std::string::npos) << row.name;
    EXPECT_NE(document.find(" | " + std::string(row.meaning) + " |"), std::string::npos)
        << row.name << ": " << row.meaning;
  }
}

}  // namespace
}  // namespace cgconform::suites

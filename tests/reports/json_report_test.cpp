#include "reports/json_report.hpp"

#include <sstream>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validation_results.hpp>
#include <valijson/validator.hpp>

#include "matrix/error.hpp"
#include "tests/build_paths.hpp"
#include "tests/reports/sample_run.hpp"
#include "tests/temporary_directory.hpp"

namespace cgconform::reports {
namespace {

using cgconform::testing::read_file;
using cgconform::testing::TemporaryDirectory;
using nlohmann::json;

/// The validator's complaints about `document`, empty where it obeys the schema file `name`.
std::string violations(const std::string& name, const json& document) {
  const json schema_text =
      json::parse(read_file(std::string(CGCONFORM_SOURCE_DIR) + "/reports/schema/" + name));
  valijson::Schema schema;
  valijson::SchemaParser parser;
  parser.populateSchema(valijson::adapters::NlohmannJsonAdapter(schema_text), schema);
  valijson::Validator validator;
  valijson::ValidationResults results;
  validator.validate(schema, valijson::adapters::NlohmannJsonAdapter(document), &results);
  std::string text;
  valijson::ValidationResults::Error error;
  while (results.popError(error)) {
    for (const std::string& part : error.context) text += part;
    text += ": " + error.description + "\n";
  }
  return text;
}

TEST(SummaryJson, ObeysItsSchemaWhenFinished) {
  const TemporaryDirectory directory;
  SummaryJson report(directory.path());
  testing::play(report);
  const json summary = json::parse(read_file(directory.path() / "summary.json"));
  EXPECT_EQ(violations("summary.schema.json", summary), "");
  EXPECT_EQ(summary["counts"]["total"], 6);
  EXPECT_EQ(summary["verdicts"]["CRASH"], 1);
  EXPECT_EQ(summary["failures"].size(), 2U);
}

TEST(SummaryJson, IsOnDiskAndMarkedUnfinishedFromTheBeginning) {
  const TemporaryDirectory directory;
  SummaryJson report(directory.path());
  report.begin(testing::sample_run());
  const json summary = json::parse(read_file(directory.path() / "summary.json"));
  EXPECT_EQ(violations("summary.schema.json", summary), "");
  EXPECT_FALSE(summary["finished"].get<bool>());
}

TEST(SummaryJson, SchemaRefusesUnknownAndMissingFields) {
  const TemporaryDirectory directory;
  SummaryJson report(directory.path());
  testing::play(report);
  json summary = json::parse(read_file(directory.path() / "summary.json"));
  summary["surprise"] = 1;
  EXPECT_NE(violations("summary.schema.json", summary), "");
  summary.erase("surprise");
  summary.erase("exit_code");
  EXPECT_NE(violations("summary.schema.json", summary), "");
}

TEST(ResultsJsonl, EveryLineObeysTheSchemaAndIsThereAtOnce) {
  const TemporaryDirectory directory;
  ResultsJsonl report(directory.path());
  report.begin(testing::sample_run());
  std::size_t written = 0;
  for (const suites::CellResult& cell : testing::sample_cells()) {
    report.cell_finished(cell);
    ++written;
    std::istringstream lines(read_file(directory.path() / "results.jsonl"));
    std::size_t count = 0;
    for (std::string line; std::getline(lines, line); ++count) {
      EXPECT_EQ(violations("result.schema.json", json::parse(line)), "") << line;
    }
    EXPECT_EQ(count, written);
  }
}

TEST(ResultsJsonl, RefusesAFolderItCannotWriteIn) {
  ResultsJsonl report("/proc/no-such-folder");
  EXPECT_THROW(report.begin(testing::sample_run()), Error);
}

}  // namespace
}  // namespace cgconform::reports

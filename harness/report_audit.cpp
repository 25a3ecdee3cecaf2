#include "harness/report_audit.hpp"

#include <cstdint>
#include <exception>
#include <fstream>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <pugixml.hpp>

#include "matrix/error.hpp"
#include "suites/verdict.hpp"

namespace cgconform::harness {
namespace {

using nlohmann::json;
using reports::RunSummary;

/// Cells by the name of their verdict.
using Tally = std::map<std::string, std::uint64_t>;

void require(bool holds, const std::string& what) {
  if (!holds) throw Error(what);
}

void require_equal(const std::string& where, const Tally& told, const Tally& expected) {
  for (const Tally* names : {&told, &expected}) {
    for (const auto& entry : *names) {
      const std::string& name = entry.first;
      const auto value = [&](const Tally& tally) {
        const auto found = tally.find(name);
        return found == tally.end() ? 0 : found->second;
      };
      require(value(told) == value(expected),
              fmt::format("{} has {} cells {}, the run has {}", where, value(told), name,
                          value(expected)));
    }
  }
}

Tally tally_of(const RunSummary& summary) {
  Tally tally;
  for (const auto& [verdict, count] : summary.verdicts) {
    tally[std::string(suites::verdict_name(verdict))] = count;
  }
  return tally;
}

json document_in(const std::filesystem::path& path) {
  std::ifstream file(path);
  return json::parse(file);
}

void audit_results(const std::filesystem::path& path, const RunSummary& summary) {
  std::ifstream file(path);
  Tally tally;
  // A run that repeats its cells holds each once a round.
  std::set<std::pair<std::string, std::uint64_t>> seen;
  for (std::string line; std::getline(file, line);) {
    const json result = json::parse(line);
    if (result.at("provisional").get<bool>()) continue;
    const auto hash = result.at("hash").get<std::string>();
    const auto round = result.value("round", std::uint64_t{0});
    require(seen.emplace(hash, round).second, fmt::format("results.jsonl has cell {} twice", hash));
    ++tally[result.at("verdict").get<std::string>()];
  }
  require_equal("results.jsonl", tally, tally_of(summary));
}

void audit_summary(const std::filesystem::path& path, const RunSummary& summary) {
  const json document = document_in(path);
  require_equal("summary.json", document.at("verdicts").get<Tally>(), tally_of(summary));
  const auto code = document.at("exit_code").get<int>();
  require(code == summary.exit_code, fmt::format("summary.json has exit code {}, the run ends "
                                                 "with {}",
                                                 code, summary.exit_code));
  const std::size_t failures = document.at("failures").size();
  require(
      failures == summary.failures.size(),
      fmt::format("summary.json lists {} failed cells of {}", failures, summary.failures.size()));
}

std::string property_of(const pugi::xml_node& node, const char* name) {
  return node.child("properties")
      .find_child_by_attribute("property", "name", name)
      .attribute("value")
      .value();
}

/// Refused and skipped cells of a large matrix are not listed one by one.
bool always_listed(suites::Verdict verdict) {
  const suites::VerdictClass kind = suites::verdict_class(verdict);
  return kind != suites::VerdictClass::refused && kind != suites::VerdictClass::skipped;
}

void audit_junit(const std::filesystem::path& path, const RunSummary& summary) {
  pugi::xml_document document;
  const pugi::xml_parse_result parsed = document.load_file(path.c_str());
  require(static_cast<bool>(parsed), fmt::format("junit.xml: {}", parsed.description()));
  const pugi::xml_node suite = document.child("testsuites").child("testsuite");
  Tally tally;
  std::uint64_t red = 0;
  for (const pugi::xml_node& test : suite.children("testcase")) {
    const std::string name = property_of(test, "verdict");
    const auto verdict = suites::parse_verdict(name);
    require(verdict.has_value(), fmt::format("junit.xml has a cell of verdict '{}'", name));
    if (always_listed(*verdict)) ++tally[name];
    if (test.child("failure") || test.child("error")) ++red;
  }
  Tally expected;
  for (const auto& [verdict, count] : summary.verdicts) {
    if (always_listed(verdict)) expected[std::string(suites::verdict_name(verdict))] = count;
  }
  require_equal("junit.xml", tally, expected);
  require(red == summary.failures.size(),
          fmt::format("junit.xml has {} red cells of {}", red, summary.failures.size()));
  const auto told = suite.attribute("failures").as_ullong() + suite.attribute("errors").as_ullong();
  require(told == red, fmt::format("junit.xml counts {} red cells and has {}", told, red));
  const std::string code = property_of(suite, "exit_code");
  require(code == std::to_string(summary.exit_code),
          fmt::format("junit.xml has exit code {}, the run ends with {}", code, summary.exit_code));
}

}  // namespace

std::string audit_reports(const std::filesystem::path& folder, const RunSummary& summary) {
  try {
    audit_results(folder / "results.jsonl", summary);
    audit_summary(folder / "summary.json", summary);
    audit_junit(folder / "junit.xml", summary);
    return {};
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace cgconform::harness

#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "reports/report_writer.hpp"
#include "suites/probe_table.hpp"

namespace cgconform::harness {

/// What a probe showed on this platform.
struct ProbeOutcome {
  enum class Kind : std::uint8_t { needed, nothing, not_shown };
  Kind kind = Kind::not_shown;
  suites::Verdict verdict = suites::Verdict::skip;  ///< of the cell itself
  std::string check_id;
  int rank = -1;
  std::string reason;       ///< what was seen, or why nothing was shown
  bool as_expected = true;  ///< as the table says
};

/// Outcomes by the hash of their cell, as they come.
using ProbeOutcomes = std::map<std::string, ProbeOutcome>;

/// Prints the table of rules and outcomes at the end of a run, and writes it to `probes.json`.
std::unique_ptr<reports::ReportWriter> probe_report(
    std::filesystem::path folder, std::map<std::string, const suites::Probe*> by_hash,
    std::shared_ptr<const ProbeOutcomes> outcomes);

}  // namespace cgconform::harness

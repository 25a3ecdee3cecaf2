#pragma once

#include <filesystem>
#include <string>

#include "reports/report_writer.hpp"

namespace cgconform::harness {

/// SUI-06: reads results.jsonl, summary.json and junit.xml in `folder` back and says where one of
/// them tells something else than the run's summary; empty where all agree.
std::string audit_reports(const std::filesystem::path& folder, const reports::RunSummary& summary);

}  // namespace cgconform::harness

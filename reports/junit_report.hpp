#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>

#include <pugixml.hpp>

#include "reports/report_writer.hpp"

namespace cgconform::reports {

struct JunitOptions {
  /// Refused and skipped cells stand in the file one by one up to this many in the matrix; beyond,
  /// as counts in the suite's properties.
  std::uint64_t max_cells_listed = 10000;
};

/// junit.xml: one file merged over ranks. Each cell is a test case whose properties name verdict,
/// rank, rules and seed; a failure's text is the first failing rank's. A valid file is on disk from
/// the beginning; failures reach it within seconds.
class JunitReport final : public ReportWriter {
 public:
  explicit JunitReport(std::filesystem::path directory, const JunitOptions& options = {})
      : directory_(std::move(directory)), options_(options) {}
  void begin(const RunInfo& info) override;
  void cell_finished(const suites::CellResult& result) override;
  void end(const RunSummary& summary) override;

 private:
  void update_counts();
  void write_unless_recent();
  void write();

  std::filesystem::path directory_;
  JunitOptions options_;
  pugi::xml_document document_;
  pugi::xml_node suite_;
  pugi::xml_node properties_;
  std::uint64_t tests_ = 0;
  std::uint64_t failures_ = 0;
  std::uint64_t errors_ = 0;
  std::uint64_t skipped_ = 0;
  double seconds_ = 0.0;
  bool list_all_ = true;
  std::chrono::steady_clock::time_point last_write_;
};

}  // namespace cgconform::reports

#pragma once

#include <filesystem>
#include <string>

#include "reports/report_writer.hpp"

namespace cgconform::reports {

/// Version of the schemas in reports/schema; any change of the written fields raises it.
constexpr int schema_version = 3;

/// An open file that only grows: each line goes out in one write call, so that a reader, or a kill,
/// never sees half of one but the last.
class LineFile {
 public:
  LineFile() = default;
  ~LineFile();
  LineFile(const LineFile&) = delete;
  LineFile& operator=(const LineFile&) = delete;

  /// Throws Error naming the path and the system's reason.
  void open(const std::filesystem::path& path);
  /// Appends `line` and a line feed.
  void append(std::string line);

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

/// Writes `text` beside `path` and renames it into place, so that a reader sees the old or the new
/// content. Throws Error naming the path and the system's reason.
void write_file_atomically(const std::filesystem::path& path, const std::string& text);

/// results.jsonl: one JSON object a line and cell, in the order verdicts came
/// (schema/result.schema.json).
class ResultsJsonl final : public ReportWriter {
 public:
  explicit ResultsJsonl(std::filesystem::path directory) : directory_(std::move(directory)) {}
  void begin(const RunInfo& info) override;
  void cell_finished(const suites::CellResult& result) override;
  void end(const RunSummary& summary) override;

 private:
  std::filesystem::path directory_;
  LineFile file_;
};

/// summary.json: run, environment of every rank, counts, failures (schema/summary.schema.json).
/// Written when the run begins, marked unfinished, and replaced when it ends.
class SummaryJson final : public ReportWriter {
 public:
  explicit SummaryJson(std::filesystem::path directory) : directory_(std::move(directory)) {}
  void begin(const RunInfo& info) override;
  void cell_finished(const suites::CellResult& result) override;
  void end(const RunSummary& summary) override;

 private:
  std::filesystem::path directory_;
  RunInfo info_;
};

}  // namespace cgconform::reports

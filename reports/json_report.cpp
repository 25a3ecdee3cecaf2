#include "reports/json_report.hpp"

#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "matrix/error.hpp"
#include "suites/result_json.hpp"

namespace cgconform::reports {

namespace {

using nlohmann::json;

[[noreturn]] void throw_file_error(const std::filesystem::path& path, const char* action) {
  throw Error(fmt::format("{}: cannot {}: {}", path.string(), action, std::strerror(errno)));
}

void write_all(int descriptor, const std::string& text, const std::filesystem::path& path) {
  std::size_t written = 0;
  while (written < text.size()) {
    const ssize_t count = ::write(descriptor, text.data() + written, text.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw_file_error(path, "write");
    written += static_cast<std::size_t>(count);
  }
}

/// Text from dying programs may not be UTF-8; it is kept readable rather than refused.
std::string dump(const json& document, int indent) {
  return document.dump(indent, ' ', false, json::error_handler_t::replace);
}

json counts_json(const PlannedCounts& counts) {
  return {{"total", counts.total},
          {"run", counts.run},
          {"refused", counts.refused},
          {"skipped", counts.skipped}};
}

json rounds_json(const std::vector<RoundSummary>& rounds) {
  json list = json::array();
  for (const RoundSummary& round : rounds) {
    list.push_back({{"round", round.round},
                    {"seed", round.seed},
                    {"cells", round.cells},
                    {"good", round.good},
                    {"seconds", round.seconds},
                    {"memory_bytes", round.memory_bytes}});
  }
  return list;
}

json run_json(const RunInfo& info) {
  json ranks = json::array();
  for (const RankInfo& rank : info.ranks) {
    ranks.push_back({{"rank", rank.world_rank},
                     {"host", rank.host},
                     {"pid", rank.pid},
                     {"device", rank.device},
                     {"facts", rank.facts}});
  }
  return {{"schema_version", schema_version},
          {"program", "cgconform"},
          {"version", info.version},
          {"git_commit", info.git_commit},
          {"command_line", info.command_line},
          {"matrix", info.matrix},
          {"matrix_hash", info.matrix_hash},
          {"seed", info.seed},
          {"device", info.device},
          {"started", info.started},
          {"selection", info.selection},
          {"notices", info.notices},
          {"planned", counts_json(info.planned)},
          {"ranks", std::move(ranks)}};
}

}  // namespace

LineFile::~LineFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void LineFile::open(const std::filesystem::path& path) {
  path_ = path;
  descriptor_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (descriptor_ < 0) throw_file_error(path, "open for writing");
}

void LineFile::append(std::string line) {
  line += '\n';
  write_all(descriptor_, line, path_);
}

void write_file_atomically(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::path temporary = path;
  temporary += ".part";
  const int descriptor = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor < 0) throw_file_error(temporary, "open for writing");
  try {
    write_all(descriptor, text, temporary);
  } catch (...) {
    ::close(descriptor);
    throw;
  }
  if (::close(descriptor) != 0) throw_file_error(temporary, "close");
  if (std::rename(temporary.c_str(), path.c_str()) != 0) throw_file_error(path, "rename into");
}

void ResultsJsonl::begin(const RunInfo& /*info*/) {
  file_.open(directory_ / "results.jsonl");
}

void ResultsJsonl::cell_finished(const suites::CellResult& result) {
  file_.append(dump(suites::to_json(result), -1));
}

void ResultsJsonl::end(const RunSummary& /*summary*/) {}

void SummaryJson::begin(const RunInfo& info) {
  info_ = info;
  json document = run_json(info);
  document["finished"] = false;
  write_file_atomically(directory_ / "summary.json", dump(document, 2) + "\n");
}

void SummaryJson::cell_finished(const suites::CellResult& /*result*/) {}

void SummaryJson::end(const RunSummary& summary) {
  json verdicts = json::object();
  for (const auto& [verdict, count] : summary.verdicts) {
    verdicts[std::string(suites::verdict_name(verdict))] = count;
  }
  json failures = json::array();
  for (const FailedCell& cell : summary.failures) {
    failures.push_back({{"id", cell.id},
                        {"hash", cell.hash},
                        {"verdict", suites::verdict_name(cell.verdict)},
                        {"rank", cell.failing_rank},
                        {"check", cell.check_id},
                        {"reason", cell.reason},
                        {"reproducer", cell.reproducer}});
    if (cell.round == 0) continue;
    failures.back()["round"] = cell.round;
    failures.back()["good_rounds"] = cell.rate.good;
    failures.back()["rounds"] = cell.rate.rounds;
  }
  json document = run_json(info_);
  document["finished"] = true;
  document["counts"] = counts_json(summary.counts);
  document["missing"] = summary.missing;
  document["verdicts"] = std::move(verdicts);
  document["refused_by_rule"] = summary.refused_by_rule;
  document["skipped_by_reason"] = summary.skipped_by_reason;
  document["failures"] = std::move(failures);
  document["rounds"] = rounds_json(summary.rounds);
  document["exit_code"] = summary.exit_code;
  document["exit_meaning"] = summary.exit_meaning;
  if (!summary.resume_line.empty()) document["resume"] = summary.resume_line;
  document["seconds"] = summary.seconds;
  write_file_atomically(directory_ / "summary.json", dump(document, 2) + "\n");
}

}  // namespace cgconform::reports

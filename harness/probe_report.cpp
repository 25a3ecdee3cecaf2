#include "harness/probe_report.hpp"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "reports/json_report.hpp"

namespace cgconform::harness {
namespace {

using nlohmann::json;
using suites::Probe;

/// What the guard is worth on this platform.
std::string_view kind_name(const ProbeOutcome& outcome) {
  switch (outcome.kind) {
    case ProbeOutcome::Kind::needed:
      return "guard still needed";
    case ProbeOutcome::Kind::nothing:
      return "nothing happened";
    case ProbeOutcome::Kind::not_shown:
      break;
  }
  return "not shown";
}

std::string seen_text(const ProbeOutcome& outcome) {
  if (outcome.kind == ProbeOutcome::Kind::not_shown) return outcome.reason;
  if (outcome.kind == ProbeOutcome::Kind::nothing) return {};
  return fmt::format("{}{}{}", suites::verdict_name(outcome.verdict),
                     outcome.check_id.empty() ? "" : fmt::format(" by {}", outcome.check_id),
                     outcome.rank < 0 ? "" : fmt::format(", rank {}", outcome.rank));
}

std::string finding_text(const Probe& probe, const ProbeOutcome& outcome) {
  if (outcome.as_expected) return {};
  const std::string expected =
      probe.expected
          ? fmt::format("{}{}", suites::verdict_name(*probe.expected),
                        probe.check_id.empty() ? "" : fmt::format(" by {}", probe.check_id))
          : "nothing";
  return fmt::format("  <- the table says {}", expected);
}

class ProbeReport final : public reports::ReportWriter {
 public:
  ProbeReport(std::filesystem::path folder, std::map<std::string, const Probe*> by_hash,
              std::shared_ptr<const ProbeOutcomes> outcomes)
      : folder_(std::move(folder)), by_hash_(std::move(by_hash)), outcomes_(std::move(outcomes)) {}

  void begin(const reports::RunInfo& info) override { device_ = info.device; }

  void cell_finished(const suites::CellResult& result) override {
    if (result.provisional) return;
    const auto known = outcomes_->find(result.hash);
    const auto probe = by_hash_.find(result.hash);
    if (probe == by_hash_.end()) return;
    ProbeOutcome outcome;
    outcome.reason = result.reason;
    shown_.emplace_back(probe->second, known == outcomes_->end() ? outcome : known->second);
  }

  void end(const reports::RunSummary& summary) override {
    // Rows of the table in its order; they end in another.
    std::sort(shown_.begin(), shown_.end(),
              [](const auto& a, const auto& b) { return std::less<>()(a.first, b.first); });
    print();
    json rows = json::array();
    for (const auto& [probe, outcome] : shown_) rows.push_back(to_json(*probe, outcome));
    const json document = {{"schema_version", 1},
                           {"device", device_},
                           {"exit_code", summary.exit_code},
                           {"probes", std::move(rows)}};
    reports::write_file_atomically(
        folder_ / "probes.json",
        document.dump(2, ' ', false, json::error_handler_t::replace) + "\n");
  }

 private:
  static json to_json(const Probe& probe, const ProbeOutcome& outcome) {
    json row = {{"rule", probe.rule},
                {"probe", probe.name()},
                {"protects", probe.protects},
                {"outcome", kind_name(outcome)},
                {"verdict", suites::verdict_name(outcome.verdict)},
                {"check", outcome.check_id},
                {"rank", outcome.rank},
                {"reason", outcome.reason},
                {"as_expected", outcome.as_expected}};
    row["expected"] = probe.expected ? json(suites::verdict_name(*probe.expected)) : json(nullptr);
    return row;
  }

  void print() const {
    std::size_t widest = 0;
    for (const auto& [probe, outcome] : shown_) widest = std::max(widest, probe->name().size());
    std::string text = fmt::format("\nGuards on device {}\n", device_);
    std::map<ProbeOutcome::Kind, std::size_t> counts;
    std::size_t findings = 0;
    for (const auto& [probe, outcome] : shown_) {
      ++counts[outcome.kind];
      if (!outcome.as_expected) ++findings;
      std::string line =
          fmt::format("  {:<{}}  {:<18}  {}{}", probe->name(), widest, kind_name(outcome),
                      seen_text(outcome), finding_text(*probe, outcome));
      line.erase(line.find_last_not_of(' ') + 1);
      text += line + "\n";
    }
    text += fmt::format(
        "{} probes: {} guards still needed, {} without effect, {} not shown; {} not "
        "as the table says\n",
        shown_.size(), counts[ProbeOutcome::Kind::needed], counts[ProbeOutcome::Kind::nothing],
        counts[ProbeOutcome::Kind::not_shown], findings);
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
  }

  std::filesystem::path folder_;
  std::map<std::string, const Probe*> by_hash_;
  std::shared_ptr<const ProbeOutcomes> outcomes_;
  std::vector<std::pair<const Probe*, ProbeOutcome>> shown_;
  std::string device_;
};

}  // namespace

std::unique_ptr<reports::ReportWriter> probe_report(std::filesystem::path folder,
                                                    std::map<std::string, const Probe*> by_hash,
                                                    std::shared_ptr<const ProbeOutcomes> outcomes) {
  return std::make_unique<ProbeReport>(std::move(folder), std::move(by_hash), std::move(outcomes));
}

}  // namespace cgconform::harness

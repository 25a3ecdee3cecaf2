#include "harness/sanitizer_report.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include <fmt/format.h>

namespace cgconform::harness {
namespace {

using suites::Verdict;

constexpr std::string_view line_mark = "=========";
constexpr std::string_view indent = "    ";
constexpr std::string_view own_kernels = "cgconform::";
constexpr std::string_view internal_error = "Internal Sanitizer Error";
constexpr std::string_view not_printed = "not printed";

/// Lines that stand where an error may begin and are none.
constexpr std::array<std::string_view, 8> headings{
    "COMPUTE-SANITIZER", "Program hit", "Target application",  "Error: process", "Error: Target",
    "Internal",          "Warning",     "Saved host backtrace"};

struct Tool {
  std::string_view name;
  Verdict verdict;
  bool counts_libraries;
  bool follows_writes;
};

constexpr std::array tools{
    Tool{"memcheck", Verdict::fail_illegal_access, true, false},
    Tool{"racecheck", Verdict::fail_nondeterminism, false, false},
    Tool{"initcheck", Verdict::fail_stale_address, false, true},
    Tool{"synccheck", Verdict::fail_nondeterminism, false, false},
};

const Tool& tool_named(std::string_view name) {
  const auto* found =
      std::find_if(tools.begin(), tools.end(), [&](const Tool& tool) { return tool.name == name; });
  return found == tools.end() ? tools.front() : *found;
}

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \r\t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \r\t") - first + 1);
}

/// "kernel(float *)+0x60 in file.cu:4" into kernel and place.
void set_location(std::string_view text, SanitizerFinding& finding) {
  const std::size_t offset = text.rfind("+0x");
  const std::size_t in = text.rfind(" in ");
  finding.kernel = trimmed(text.substr(0, std::min(offset, in)));
  if (in != std::string_view::npos && (offset == std::string_view::npos || in > offset)) {
    const std::string_view file = trimmed(text.substr(in + 4));
    finding.place = file.substr(0, file.find(' '));
  }
}

std::optional<std::uint64_t> number_at(std::string_view text) {
  text = trimmed(text);
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  return number;
}

/// The number of errors in a summary line; nothing for any other line.
std::optional<std::uint64_t> summary_errors(std::string_view line) {
  constexpr std::string_view errors = "ERROR SUMMARY:";
  constexpr std::string_view hazards = "RACECHECK SUMMARY:";
  if (line.starts_with(errors)) return number_at(line.substr(errors.size()));
  if (!line.starts_with(hazards)) return std::nullopt;
  // "1 hazard displayed (1 error, 0 warnings)"
  const std::size_t open = line.find('(');
  return number_at(open == std::string_view::npos ? line.substr(hazards.size())
                                                  : line.substr(open + 1));
}

bool begins_finding(std::string_view line) {
  return !line.empty() && line.find("SUMMARY:") == std::string_view::npos &&
         std::none_of(headings.begin(), headings.end(),
                      [&](std::string_view heading) { return line.starts_with(heading); });
}

SanitizerFinding new_finding(std::string_view line) {
  SanitizerFinding finding;
  constexpr std::string_view access = " access at ";
  const std::size_t at = line.find(access);
  finding.what = std::string(line.substr(0, at));
  if (at != std::string_view::npos) set_location(line.substr(at + access.size()), finding);
  return finding;
}

void add_detail(std::string_view line, SanitizerFinding& finding) {
  constexpr std::string_view at = "at ";
  if (finding.kernel.empty() && line.starts_with(at)) {
    set_location(line.substr(at.size()), finding);
  } else if (!line.starts_with("Host Frame") && !line.starts_with("Device Frame") &&
             !line.starts_with("Saved host backtrace")) {
    if (!finding.detail.empty()) finding.detail += ", ";
    finding.detail += line;
  }
}

void keep(SanitizerFinding finding, std::vector<SanitizerFinding>& findings) {
  const auto known =
      std::find_if(findings.begin(), findings.end(), [&](const SanitizerFinding& other) {
        return other.what == finding.what && other.kernel == finding.kernel &&
               other.place == finding.place;
      });
  if (known == findings.end()) {
    findings.push_back(std::move(finding));
  } else {
    ++known->count;
  }
}

std::string describe(const SanitizerFinding& finding) {
  std::string text = finding.what;
  if (!finding.kernel.empty()) text += fmt::format(" in kernel {}", finding.kernel);
  if (!finding.place.empty()) text += fmt::format(" at {}", finding.place);
  if (finding.count > 1) text += fmt::format(", {} times", finding.count);
  if (!finding.detail.empty()) text += fmt::format(" ({})", finding.detail);
  return text;
}

}  // namespace

bool has_unseen_writes(const matrix::Cell& cell) {
  const matrix::TrainingConfig& config = cell.config;
  const bool sixteen_bit = config.params_dtype == matrix::ParamsDtype::bf16 ||
                           config.params_dtype == matrix::ParamsDtype::fp16;
  return sixteen_bit || config.fp8 != matrix::Fp8Format::none;
}

SanitizerReport parse_sanitizer_report(std::string_view text) {
  SanitizerReport report;
  std::optional<SanitizerFinding> open;
  const auto close = [&] {
    if (open) keep(*std::exchange(open, std::nullopt), report.findings);
  };
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
    if (!line.starts_with(line_mark)) continue;  // the program's own output
    line.remove_prefix(line_mark.size());
    if (line.starts_with(' ')) line.remove_prefix(1);
    const std::string_view content = trimmed(line);
    if (line.starts_with(indent)) {
      if (open) add_detail(content, *open);
      continue;
    }
    close();
    if (const auto errors = summary_errors(content)) {
      if (content.find(not_printed) == std::string_view::npos) {
        report.errors = errors;
      } else {
        report.unprinted += *errors;
      }
    } else if (content.starts_with(internal_error)) {
      if (report.internal_error.empty()) report.internal_error = content;
    } else if (begins_finding(content)) {
      open = new_finding(content);
    }
  }
  close();
  return report;
}

const std::vector<std::string_view>& sanitizer_tools() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> all;
    for (const Tool& tool : tools) all.push_back(tool.name);
    return all;
  }();
  return names;
}

suites::CheckResult judge_sanitizer_report(const SanitizerReport& report, std::string_view tool) {
  const Tool& row = tool_named(tool);
  suites::CheckResult result{.check_id = "TLG-05"};
  if (!report.internal_error.empty()) {
    result.verdict = Verdict::inconclusive_env;
    result.detail = fmt::format(
        "{} failed itself, and what the worker met under it may be its doing: {}; take another "
        "tool, or the compute-sanitizer of another CUDA Toolkit",
        tool, report.internal_error);
    return result;
  }
  std::uint64_t of_libraries = 0;
  const SanitizerFinding* first = nullptr;
  std::uint64_t further = 0;
  for (const SanitizerFinding& finding : report.findings) {
    const bool own = finding.kernel.find(own_kernels) != std::string::npos;
    if (!own && !row.counts_libraries) {
      ++of_libraries;
    } else if (first == nullptr) {
      first = &finding;
    } else {
      ++further;
    }
  }
  if (first != nullptr && row.follows_writes && report.has_unseen_writes) {
    result.verdict = Verdict::inconclusive_env;
    result.detail = fmt::format(
        "{} does not see all that products of 16 and 8 bits write; take a cell in fp32. It says: "
        "{}",
        tool, describe(*first));
  } else if (first != nullptr) {
    result.verdict = row.verdict;
    result.detail = fmt::format("{}: {}", tool, describe(*first));
    if (further > 0) result.detail += fmt::format("; and {} further kinds of error", further);
  } else if (!report.errors) {
    result.verdict = Verdict::fail_suite;
    result.detail = fmt::format(
        "{}: the log has no summary, so the worker did not run under it to its end", tool);
  } else if (report.unprinted > 0) {
    result.verdict = Verdict::inconclusive_env;
    result.detail = fmt::format(
        "{}: {} errors were not printed, and some of them may be this program's; wrap a smaller "
        "cell",
        tool, report.unprinted);
  } else {
    result.detail = fmt::format("{}: no error in this program's kernels", tool);
    if (of_libraries > 0) {
      result.detail += fmt::format("; {} kinds of report concern libraries", of_libraries);
    }
  }
  return result;
}

void add_sanitizer_report(const SanitizerReport& seen, std::string_view tool,
                          suites::RankReport& report) {
  suites::CheckResult result = judge_sanitizer_report(seen, tool);
  if (!seen.internal_error.empty()) {
    report.abnormal_end.reset();
    report.checks.clear();
  }
  // A worker that did not end in good order has another cause in its report, and no summary.
  const bool only_cut_short = report.abnormal_end && seen.findings.empty();
  if (!only_cut_short) report.checks.push_back(std::move(result));
}

}  // namespace cgconform::harness

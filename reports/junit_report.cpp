#include "reports/junit_report.hpp"

#include <sstream>

#include <fmt/format.h>

#include "reports/console_report.hpp"
#include "reports/json_report.hpp"

namespace cgconform::reports {

namespace {

void add_property(pugi::xml_node properties, const std::string& name, const std::string& value) {
  pugi::xml_node property = properties.append_child("property");
  property.append_attribute("name") = name.c_str();
  property.append_attribute("value") = value.c_str();
}

/// CRASH, HANG and environment trouble are JUnit errors; wrong results are failures.
bool is_error(suites::Verdict verdict) {
  return verdict == suites::Verdict::crash || verdict == suites::Verdict::hang ||
         suites::verdict_class(verdict) == suites::VerdictClass::environment;
}

/// XML 1.0 has no way to write most control characters, and logs of dying programs contain them.
std::string printable(std::string text) {
  for (char& c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 && c != '\n' && c != '\t') c = '?';
  }
  return text;
}

}  // namespace

void JunitReport::begin(const RunInfo& info) {
  list_all_ = info.planned.total <= options_.max_cells_listed;
  pugi::xml_node declaration = document_.append_child(pugi::node_declaration);
  declaration.append_attribute("version") = "1.0";
  declaration.append_attribute("encoding") = "UTF-8";
  suite_ = document_.append_child("testsuites").append_child("testsuite");
  suite_.append_attribute("name") = ("cgconform." + info.matrix).c_str();
  suite_.append_attribute("timestamp") = info.started.c_str();
  for (const char* name : {"tests", "failures", "errors", "skipped", "time"}) {
    suite_.append_attribute(name) = 0;
  }
  properties_ = suite_.append_child("properties");
  add_property(properties_, "version", info.version);
  add_property(properties_, "git_commit", info.git_commit);
  add_property(properties_, "command_line", printable(info.command_line));
  add_property(properties_, "matrix_hash", info.matrix_hash);
  add_property(properties_, "seed", fmt::format("{}", info.seed));
  add_property(properties_, "device", info.device);
  add_property(properties_, "planned_total", fmt::format("{}", info.planned.total));
  add_property(properties_, "planned_run", fmt::format("{}", info.planned.run));
  add_property(properties_, "refused", fmt::format("{}", info.planned.refused));
  add_property(properties_, "skipped", fmt::format("{}", info.planned.skipped));
  write();
}

void JunitReport::cell_finished(const suites::CellResult& result) {
  if (result.provisional) return;
  const suites::VerdictClass kind = suites::verdict_class(result.verdict);
  const bool not_run =
      kind == suites::VerdictClass::refused || kind == suites::VerdictClass::skipped;
  if (not_run && !list_all_) return;

  ++tests_;
  seconds_ += result.seconds;
  pugi::xml_node test = suite_.append_child("testcase");
  test.append_attribute("classname") = "cgconform";
  const std::string name =
      result.round == 0 ? result.id : fmt::format("{} round {}", result.id, result.round);
  test.append_attribute("name") = name.c_str();
  test.append_attribute("time") = fmt::format("{:.6f}", result.seconds).c_str();
  pugi::xml_node properties = test.append_child("properties");
  add_property(properties, "hash", result.hash);
  add_property(properties, "verdict", std::string(suites::verdict_name(result.verdict)));
  if (result.failing_rank >= 0) {
    add_property(properties, "rank", fmt::format("{}", result.failing_rank));
  }
  if (!result.check_id.empty()) add_property(properties, "check", result.check_id);
  for (const std::string& rule : result.rules) add_property(properties, "rule", rule);
  for (const std::string& rule : result.lifted) add_property(properties, "lifted", rule);

  if (not_run) {
    ++skipped_;
    const std::string why = kind == suites::VerdictClass::refused
                                ? fmt::format("refused: {}", fmt::join(result.rules, ", "))
                                : result.reason;
    test.append_child("skipped").append_attribute("message") = printable(why).c_str();
    return;
  }
  if (kind == suites::VerdictClass::good) return;

  const bool error = is_error(result.verdict);
  ++(error ? errors_ : failures_);
  pugi::xml_node failure = test.append_child(error ? "error" : "failure");
  failure.append_attribute("type") = std::string(suites::verdict_name(result.verdict)).c_str();
  failure.append_attribute("message") = printable(result.reason).c_str();
  failure.append_child(pugi::node_pcdata).set_value(printable(describe_failure(result)).c_str());
  write_unless_recent();
}

void JunitReport::end(const RunSummary& summary) {
  add_property(properties_, "exit_code", fmt::format("{}", summary.exit_code));
  add_property(properties_, "missing", fmt::format("{}", summary.missing));
  write();
}

void JunitReport::update_counts() {
  suite_.attribute("tests") = tests_;
  suite_.attribute("failures") = failures_;
  suite_.attribute("errors") = errors_;
  suite_.attribute("skipped") = skipped_;
  suite_.attribute("time") = fmt::format("{:.6f}", seconds_).c_str();
}

void JunitReport::write_unless_recent() {
  constexpr std::chrono::seconds interval{2};
  if (std::chrono::steady_clock::now() - last_write_ >= interval) write();
}

void JunitReport::write() {
  last_write_ = std::chrono::steady_clock::now();
  update_counts();
  std::ostringstream text;
  document_.save(text, "  ");
  write_file_atomically(directory_ / "junit.xml", text.str());
}

}  // namespace cgconform::reports

#include "suites/result_json.hpp"

#include <cmath>
#include <cstdlib>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "matrix/error.hpp"

namespace cgconform::suites {
namespace {

using nlohmann::json;

/// JSON has no number for NaN and infinities: they are written as these strings.
json encode_number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

double decode_number(const json& value) {
  if (!value.is_string()) return value.get<double>();
  const std::string text = value.get<std::string>();
  if (text != "nan" && text != "inf" && text != "-inf") {
    throw InputError(fmt::format("'{}' is not a number", text));
  }
  return std::strtod(text.c_str(), nullptr);
}

/// Reads the fields of one JSON object, each once; `finish` refuses fields nobody read.
class FieldReader {
 public:
  FieldReader(std::string_view record, const json& object) : record_(record), object_(object) {
    if (!object.is_object()) throw InputError(fmt::format("{}: expected an object", record_));
  }

  bool has(std::string_view name) const { return object_.contains(name); }

  const json& field(std::string_view name) {
    const auto found = object_.find(name);
    if (found == object_.end()) {
      throw InputError(fmt::format("{}.{}: the field is missing", record_, name));
    }
    read_.emplace(name);
    return *found;
  }

  template <typename T>
  void read(std::string_view name, T& target) {
    decode(name, [&](const json& value) {
      if constexpr (std::is_same_v<T, double>) {
        target = decode_number(value);
      } else {
        target = value.get<T>();
      }
    });
  }

  void read_verdict(std::string_view name, Verdict& target) {
    decode(name, [&](const json& value) {
      const auto verdict = parse_verdict(value.get<std::string>());
      if (!verdict) throw InputError(fmt::format("'{}' is no verdict", value.get<std::string>()));
      target = *verdict;
    });
  }

  void finish() const {
    for (const auto& [name, value] : object_.items()) {
      if (!read_.contains(name)) {
        throw InputError(fmt::format("{}.{}: unknown field", record_, name));
      }
    }
  }

 private:
  template <typename Decode>
  void decode(std::string_view name, const Decode& decode_value) {
    const json& value = field(name);
    try {
      decode_value(value);
    } catch (const json::exception& error) {
      throw InputError(fmt::format("{}.{}: {}", record_, name, error.what()));
    } catch (const InputError& error) {
      throw InputError(fmt::format("{}.{}: {}", record_, name, error.what()));
    }
  }

  std::string record_;
  const json& object_;
  std::set<std::string, std::less<>> read_;
};

json numbers_to_json(const std::map<std::string, double>& numbers) {
  json object = json::object();
  for (const auto& [name, value] : numbers) object[name] = encode_number(value);
  return object;
}

template <typename T>
json list_to_json(const std::vector<T>& items) {
  json list = json::array();
  for (const T& item : items) list.push_back(to_json(item));
  return list;
}

std::map<std::string, double> numbers_from_json(FieldReader& reader, std::string_view name) {
  std::map<std::string, double> numbers;
  for (const auto& [key, value] : reader.field(name).items()) numbers[key] = decode_number(value);
  return numbers;
}

}  // namespace

json to_json(const Divergence& divergence) {
  return {
      {"step", divergence.step},
      {"microbatch", divergence.microbatch},
      {"layer", divergence.layer},
      {"tensor", divergence.tensor},
      {"first_bad_index", divergence.first_bad_index},
      {"expected", encode_number(divergence.expected)},
      {"actual", encode_number(divergence.actual)},
      {"bad_count", divergence.bad_count},
      {"element_count", divergence.element_count},
      {"max_abs", encode_number(divergence.max_abs)},
      {"max_rel", encode_number(divergence.max_rel)},
      {"max_ulp", divergence.max_ulp},
  };
}

Divergence divergence_from_json(const json& object) {
  Divergence divergence;
  FieldReader reader("divergence", object);
  reader.read("step", divergence.step);
  reader.read("microbatch", divergence.microbatch);
  reader.read("layer", divergence.layer);
  reader.read("tensor", divergence.tensor);
  reader.read("first_bad_index", divergence.first_bad_index);
  reader.read("expected", divergence.expected);
  reader.read("actual", divergence.actual);
  reader.read("bad_count", divergence.bad_count);
  reader.read("element_count", divergence.element_count);
  reader.read("max_abs", divergence.max_abs);
  reader.read("max_rel", divergence.max_rel);
  reader.read("max_ulp", divergence.max_ulp);
  reader.finish();
  return divergence;
}

json to_json(const CheckResult& result) {
  json object = {
      {"check_id", result.check_id},
      {"verdict", verdict_name(result.verdict)},
      {"detail", result.detail},
  };
  if (result.divergence) object["divergence"] = to_json(*result.divergence);
  return object;
}

CheckResult check_result_from_json(const json& object) {
  CheckResult result;
  FieldReader reader("check", object);
  reader.read("check_id", result.check_id);
  reader.read_verdict("verdict", result.verdict);
  reader.read("detail", result.detail);
  if (reader.has("divergence")) {
    result.divergence = divergence_from_json(reader.field("divergence"));
  }
  reader.finish();
  return result;
}

json to_json(const AbnormalEnd& end) {
  return {
      {"verdict", verdict_name(end.verdict)}, {"signal", end.signal},
      {"exit_code", end.exit_code},           {"phase", end.phase},
      {"last_operation", end.last_operation}, {"stack", end.stack},
      {"ended_by_peer", end.ended_by_peer},
  };
}

AbnormalEnd abnormal_end_from_json(const json& object) {
  AbnormalEnd end;
  FieldReader reader("abnormal_end", object);
  reader.read_verdict("verdict", end.verdict);
  reader.read("signal", end.signal);
  reader.read("exit_code", end.exit_code);
  reader.read("phase", end.phase);
  reader.read("last_operation", end.last_operation);
  reader.read("stack", end.stack);
  reader.read("ended_by_peer", end.ended_by_peer);
  reader.finish();
  return end;
}

json to_json(const RankReport& report) {
  json checks = json::array();
  for (const CheckResult& check : report.checks) checks.push_back(to_json(check));
  json object = {
      {"rank", report.rank},
      {"world_rank", report.world_rank},
      {"host", report.host},
      {"device", report.device},
      {"checks", std::move(checks)},
      {"captures", report.captures},
      {"replays", report.replays},
      {"comparisons", report.comparisons},
      {"phase_milliseconds", numbers_to_json(report.phase_milliseconds)},
      {"measurements", numbers_to_json(report.measurements)},
      {"cell_digest", report.cell_digest},
  };
  if (!report.shared_legs.empty()) object["shared_legs"] = report.shared_legs;
  if (report.abnormal_end) object["abnormal_end"] = to_json(*report.abnormal_end);
  return object;
}

RankReport rank_report_from_json(const json& object) {
  RankReport report;
  FieldReader reader("rank_report", object);
  reader.read("rank", report.rank);
  reader.read("world_rank", report.world_rank);
  reader.read("host", report.host);
  reader.read("device", report.device);
  for (const json& check : reader.field("checks")) {
    report.checks.push_back(check_result_from_json(check));
  }
  reader.read("captures", report.captures);
  reader.read("replays", report.replays);
  reader.read("comparisons", report.comparisons);
  report.phase_milliseconds = numbers_from_json(reader, "phase_milliseconds");
  report.measurements = numbers_from_json(reader, "measurements");
  reader.read("cell_digest", report.cell_digest);
  if (reader.has("shared_legs")) reader.read("shared_legs", report.shared_legs);
  if (reader.has("abnormal_end")) {
    report.abnormal_end = abnormal_end_from_json(reader.field("abnormal_end"));
  }
  reader.finish();
  return report;
}

json to_json(const EarlierAttempt& attempt) {
  return {
      {"attempt", attempt.attempt},
      {"verdict", verdict_name(attempt.verdict)},
      {"check_id", attempt.check_id},
      {"failing_rank", attempt.failing_rank},
      {"reason", attempt.reason},
      {"seconds", encode_number(attempt.seconds)},
      {"ranks", list_to_json(attempt.ranks)},
  };
}

EarlierAttempt earlier_attempt_from_json(const json& object) {
  EarlierAttempt attempt;
  FieldReader reader("earlier", object);
  reader.read("attempt", attempt.attempt);
  reader.read_verdict("verdict", attempt.verdict);
  reader.read("check_id", attempt.check_id);
  reader.read("failing_rank", attempt.failing_rank);
  reader.read("reason", attempt.reason);
  reader.read("seconds", attempt.seconds);
  for (const json& rank : reader.field("ranks")) {
    attempt.ranks.push_back(rank_report_from_json(rank));
  }
  reader.finish();
  return attempt;
}

json to_json(const CellResult& result) {
  json object = {
      {"index", result.index},
      {"id", result.id},
      {"hash", result.hash},
      {"verdict", verdict_name(result.verdict)},
      {"rules", result.rules},
      {"reason", result.reason},
      {"check_id", result.check_id},
      {"failing_rank", result.failing_rank},
      {"secondary", result.secondary},
      {"reproducer", result.reproducer},
      {"attempt", result.attempt},
      {"provisional", result.provisional},
      {"seconds", encode_number(result.seconds)},
      {"environment", result.environment},
      {"ranks", list_to_json(result.ranks)},
  };
  if (result.round > 0) {
    object["round"] = result.round;
    object["seed"] = result.seed;
  }
  if (!result.lifted.empty()) object["lifted"] = result.lifted;
  if (!result.earlier.empty()) object["earlier"] = list_to_json(result.earlier);
  return object;
}

CellResult cell_result_from_json(const json& object) {
  CellResult result;
  FieldReader reader("cell_result", object);
  reader.read("index", result.index);
  reader.read("id", result.id);
  reader.read("hash", result.hash);
  reader.read_verdict("verdict", result.verdict);
  reader.read("rules", result.rules);
  if (reader.has("lifted")) reader.read("lifted", result.lifted);
  reader.read("reason", result.reason);
  reader.read("check_id", result.check_id);
  reader.read("failing_rank", result.failing_rank);
  reader.read("secondary", result.secondary);
  reader.read("reproducer", result.reproducer);
  reader.read("attempt", result.attempt);
  reader.read("provisional", result.provisional);
  reader.read("seconds", result.seconds);
  if (reader.has("round")) {
    reader.read("round", result.round);
    reader.read("seed", result.seed);
  }
  reader.read("environment", result.environment);
  for (const json& rank : reader.field("ranks")) {
    result.ranks.push_back(rank_report_from_json(rank));
  }
  if (reader.has("earlier")) {
    for (const json& attempt : reader.field("earlier")) {
      result.earlier.push_back(earlier_attempt_from_json(attempt));
    }
  }
  reader.finish();
  return result;
}

}  // namespace cgconform::suites

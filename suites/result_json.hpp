#pragma once

#include <nlohmann/json_fwd.hpp>

#include "suites/result_record.hpp"

namespace cgconform::suites {

/// The result record as JSON: one field a member, under the member's name; verdicts by name;
/// optional parts are absent where they are not set. Reading back gives an equal record and throws
/// InputError naming the field that is missing, unknown, or of the wrong type.
nlohmann::json to_json(const Divergence& divergence);
nlohmann::json to_json(const CheckResult& result);
nlohmann::json to_json(const AbnormalEnd& end);
nlohmann::json to_json(const RankReport& report);
nlohmann::json to_json(const EarlierAttempt& attempt);
nlohmann::json to_json(const CellResult& result);

Divergence divergence_from_json(const nlohmann::json& json);
CheckResult check_result_from_json(const nlohmann::json& json);
AbnormalEnd abnormal_end_from_json(const nlohmann::json& json);
RankReport rank_report_from_json(const nlohmann::json& json);
EarlierAttempt earlier_attempt_from_json(const nlohmann::json& json);
CellResult cell_result_from_json(const nlohmann::json& json);

}  // namespace cgconform::suites

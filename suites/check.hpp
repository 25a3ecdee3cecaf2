#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "matrix/cell.hpp"
#include "suites/result_record.hpp"
#include "workloads/training/leg_request.hpp"

namespace cgconform::suites {

class LegSet;

enum class CheckFamily : std::uint8_t { con, num, mem, com, lif, ccy, prf, ctl, tlg, sui };
enum class Isolation : std::uint8_t { kept_worker, fresh_worker, child_gang };

/// What a judge sees: the cell and the legs its check asked for.
struct JudgeContext {
  const matrix::Cell& cell;
  LegSet& legs;
};

/// One conformance check, declared as data.
struct CheckDefinition {
  std::string_view id;
  CheckFamily family;
  std::string_view statement;
  Verdict failure;  ///< the verdict where the judge has no more specific one
  Isolation isolation = Isolation::kept_worker;
  bool exclusive_gang = false;
  bool (*applies)(const matrix::Cell& cell) = nullptr;
  std::vector<workloads::LegRequest> (*legs)(const matrix::Cell& cell) = nullptr;
  CheckResult (*judge)(JudgeContext& context) = nullptr;
};

/// Every check that is built, in id order.
std::span<const CheckDefinition> check_table();

}  // namespace cgconform::suites

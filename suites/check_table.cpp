#include <algorithm>
#include <array>
#include <vector>

#include "suites/check.hpp"
#include "suites/checks/families.hpp"

namespace cgconform::suites {
namespace {

std::vector<CheckDefinition> collect_checks() {
  std::vector<CheckDefinition> table;
  for (const auto family :
       {checks::constraint_checks(), checks::numeric_checks(), checks::memory_checks(),
        checks::communication_checks(), checks::lifecycle_checks(), checks::concurrency_checks(),
        checks::performance_checks(), checks::tooling_checks(), checks::suite_checks(),
        checks::schedule_checks()}) {
    table.insert(table.end(), family.begin(), family.end());
  }
  for (CheckDefinition& check : table) {
    const CatalogueRow& row = catalogue_row(check.id);
    check.family = row.family;
    check.statement = row.statement;
  }
  const auto place = [](const CheckDefinition& check) { return &catalogue_row(check.id); };
  std::sort(table.begin(), table.end(), [&](const CheckDefinition& a, const CheckDefinition& b) {
    return place(a) < place(b);
  });
  return table;
}

}  // namespace

std::span<const CheckDefinition> check_table() {
  static const std::vector<CheckDefinition> table = collect_checks();
  return table;
}

const CheckDefinition* find_check(std::string_view id) {
  const auto table = check_table();
  const auto found = std::find_if(table.begin(), table.end(),
                                  [&](const CheckDefinition& check) { return check.id == id; });
  return found == table.end() ? nullptr : &*found;
}

}  // namespace cgconform::suites

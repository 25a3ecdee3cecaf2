#include "suites/check_catalogue.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <vector>

#include <fmt/format.h>

#include "matrix/error.hpp"
#include "suites/catalogue/rows.hpp"
#include "suites/check.hpp"

namespace cgconform::suites {
namespace {

struct FamilyRow {
  CheckFamily family;
  std::string_view name;
  std::string_view title;
};

constexpr std::array family_rows{
    FamilyRow{CheckFamily::con, "CON", "Constraints"},
    FamilyRow{CheckFamily::num, "NUM", "Numerics"},
    FamilyRow{CheckFamily::mem, "MEM", "Memory"},
    FamilyRow{CheckFamily::com, "COM", "Communication"},
    FamilyRow{CheckFamily::lif, "LIF", "Lifecycle"},
    FamilyRow{CheckFamily::ccy, "CCY", "Concurrency"},
    FamilyRow{CheckFamily::prf, "PRF", "Performance"},
    FamilyRow{CheckFamily::ctl, "CTL", "Control flow and node types"},
    FamilyRow{CheckFamily::tlg, "TLG", "Tooling"},
    FamilyRow{CheckFamily::sui, "SUI", "The suite itself"},
};

std::vector<CatalogueRow> collect_rows() {
  std::vector<CatalogueRow> rows;
  for (const auto group :
       {catalogue::constraints_and_numerics(), catalogue::memory_and_communication(),
        catalogue::lifecycle_to_suite()}) {
    rows.insert(rows.end(), group.begin(), group.end());
  }
  return rows;
}

/// A cell of a Markdown table: a bar would end it.
std::string table_cell(std::string_view text) {
  std::string cell;
  for (const char c : text) {
    if (c == '|') cell += '\\';
    cell += c;
  }
  return cell;
}

bool is_built(std::string_view id) {
  const auto built = check_table();
  return std::any_of(built.begin(), built.end(),
                     [&](const CheckDefinition& check) { return check.id == id; });
}

}  // namespace

std::string_view family_name(CheckFamily family) {
  return family_rows.at(static_cast<std::size_t>(family)).name;
}

std::string_view family_title(CheckFamily family) {
  return family_rows.at(static_cast<std::size_t>(family)).title;
}

std::span<const CatalogueRow> check_catalogue() {
  static const std::vector<CatalogueRow> rows = collect_rows();
  return rows;
}

const CatalogueRow& catalogue_row(std::string_view id) {
  const auto rows = check_catalogue();
  const auto found =
      std::find_if(rows.begin(), rows.end(), [&](const CatalogueRow& row) { return row.id == id; });
  if (found == rows.end()) {
    throw InternalError(fmt::format("check '{}' is not in the catalogue", id));
  }
  return *found;
}

std::string checks_markdown() {
  std::string text =
      "# Checks\n\n"
      "Each row is one conformance check: what must hold, how it is judged, and the axes it\n"
      "applies to. Ids are stable. Axes: I implementation, S scope, R recompute, P pipeline,\n"
      "A allocator, T dtype, N ranks, V NCCL settings, M capture mode, Z size. `eq` is bitwise\n"
      "equality with eager, `ac` closeness within the tolerance of the dtype.\n\n"
      "This file is generated from the table of checks; a test keeps it equal.\n";
  const auto rows = check_catalogue();
  const auto built = std::count_if(rows.begin(), rows.end(),
                                   [](const CatalogueRow& row) { return is_built(row.id); });
  text += fmt::format("\nOf {} checks, {} are built.\n", rows.size(), built);
  for (const FamilyRow& family : family_rows) {
    text += fmt::format(
        "\n## {} ({})\n\n| id | built | statement | oracle | axes |\n|---|---|---|---|---|\n",
        family.title, family.name);
    for (const CatalogueRow& row : rows) {
      if (row.family != family.family) continue;
      text += fmt::format("| {} | {} | {} | {} | {} |\n", row.id, is_built(row.id) ? "yes" : "",
                          table_cell(row.statement), table_cell(row.oracle), row.axes);
    }
  }
  return text;
}

}  // namespace cgconform::suites

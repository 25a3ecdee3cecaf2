#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace cgconform::suites {

enum class CheckFamily : std::uint8_t { con, num, mem, com, lif, ccy, prf, ctl, tlg, sui };
/// `CON`, `NUM`, ...: the first part of a check id.
std::string_view family_name(CheckFamily family);
/// What the family is about, as a heading.
std::string_view family_title(CheckFamily family);

/// One conformance check as planned, built or not.
struct CatalogueRow {
  std::string_view id;
  CheckFamily family;
  std::string_view statement;  ///< what must hold
  std::string_view oracle;     ///< how it is judged
  std::string_view axes;       ///< letters of the axes it applies to
};

/// Every check of the project in the order of families and ids; the only place of their statements.
std::span<const CatalogueRow> check_catalogue();
/// The row of an id; throws InternalError where there is none.
const CatalogueRow& catalogue_row(std::string_view id);

/// The catalogue as Markdown, a table for each family that says which checks are built:
/// docs/checks.md.
std::string checks_markdown();

}  // namespace cgconform::suites

#pragma once

#include <vector>

#include "suites/selftest_table.hpp"

namespace cgconform::suites {

/// The rows that make the tables of the suite wrong: each rule that a constraint check guards
/// dropped, weakened and overeager (F35), and selections and votes that lie.
std::vector<SelftestRow> tampering_rows();

}  // namespace cgconform::suites

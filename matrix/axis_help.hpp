#pragma once

#include <string>

namespace cgconform::matrix {

/// The axis table as a Markdown table: what docs/matrix.md shows.
std::string axis_table_markdown();

/// The axis table for a terminal: a line for each axis.
std::string axis_table_text();

}  // namespace cgconform::matrix

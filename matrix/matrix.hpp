#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "matrix/cell.hpp"
#include "matrix/filter.hpp"

namespace cgconform::matrix {

/// How cells are chosen from the product of the axes.
struct Strategy {
  enum class Kind : std::uint8_t { exhaustive, t_wise };
  Kind kind = Kind::exhaustive;
  std::int32_t width = 2;  ///< of t_wise: how many values stand together; 2 is `pairwise`
};

/// Bounds a matrix puts on its run.
struct Limits {
  std::optional<std::int32_t> max_ranks;         ///< cells that need more are skipped
  std::optional<std::int32_t> deadline_seconds;  ///< of each phase of a cell
};

/// A matrix as read from its file: what to run. Immutable once read.
struct Matrix {
  std::string name;
  std::string description;
  std::string source;  ///< file name, or `built in`
  AxisList axes;  ///< every axis of the table, then fields by name, then composite axes by name
  Cell base;      ///< the defaults and the axes of one value applied
  std::vector<Filter> include;  ///< a cell must pass one, where there are any
  std::vector<Filter> exclude;  ///< and none of these
  Strategy strategy;
  Limits limits;
};

/// Reads a matrix from JSON text; `source` names it in messages. A `scale` gives its cells the
/// sizes of that scale where the matrix names none; empty for the scale of the matrix. Throws
/// InputError that names the source, the place in it, the reason and the nearest valid choice.
Matrix read_matrix(std::string_view text, std::string_view source, std::string_view scale = {});

/// A built-in matrix by name, else the file of that path. Throws InputError.
Matrix load_matrix(const std::string& name_or_path, std::string_view scale = {});

/// A matrix compiled into the program.
struct BuiltinMatrix {
  std::string_view name;
  std::string_view text;
};

/// The built-in matrices; their texts are matrix/builtin/NAME.json.
std::vector<BuiltinMatrix> builtin_matrices();

}  // namespace cgconform::matrix

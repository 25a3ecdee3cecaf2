#pragma once

#include <string>

#include "harness/selection.hpp"

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's own name
class App;
}  // namespace CLI

namespace cgconform::harness {

/// The options of a selection as typed, before they are read.
struct TypedSelection {
  std::string shard;
  std::string budget;
  std::string repeat;
  std::string soak;
  std::string max_skips;
  Selection selection;  ///< flags and texts that need no reading
};

/// Adds `--shard`, `--budget` and their like to the program.
void add_selection_options(CLI::App& app, TypedSelection& typed);

/// Reads what was typed. Throws InputError for wrong spellings and options that contradict each
/// other or have no meaning beside mock cells (`--mock`) or the self-test.
Selection read_selection(const CLI::App& app, const TypedSelection& typed, bool selftest);

}  // namespace cgconform::harness

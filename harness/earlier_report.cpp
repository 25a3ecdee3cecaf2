#include "harness/earlier_report.hpp"

#include <set>

#include <fmt/format.h>

#include "matrix/error.hpp"

namespace cgconform::harness {
namespace {

[[noreturn]] void refuse(const std::filesystem::path& folder, const std::string& reason) {
  throw InputError(fmt::format("--rerun-failed {}: {}", folder.string(), reason));
}

bool counts_as_failed(const suites::CellResult& result) {
  return suites::is_bad(result.verdict) ||
         suites::verdict_class(result.verdict) == suites::VerdictClass::environment;
}

JournalContents read_report(const std::filesystem::path& folder) {
  try {
    return read_journal(folder / "journal.jsonl");
  } catch (const InputError& error) {
    refuse(folder, fmt::format("{}; name the folder of a report", error.what()));
  }
}

}  // namespace

std::vector<std::string> failed_cells(const std::filesystem::path& folder, const RunIdentity& run) {
  const JournalContents contents = read_report(folder);
  const JournalHeader& header = contents.header;
  if (header.matrix != run.matrix) {
    refuse(folder, fmt::format("its run was of matrix {}, this one is of {}; add --matrix {}",
                               header.matrix, run.matrix, header.matrix));
  }
  if (header.matrix_hash != run.matrix_hash) {
    refuse(folder, fmt::format("matrix {} has changed since, so its ids may mean other cells; run "
                               "the matrix itself",
                               run.matrix));
  }
  if (header.seed != run.seed) {
    refuse(folder,
           fmt::format("its run had seed {}, this one has {}; a failure may depend on it: add "
                       "--seed {}",
                       header.seed, run.seed, header.seed));
  }
  // Of a repeated cell any failed round counts.
  std::set<std::string> ids;
  for (const auto& [key, history] : cell_histories(contents)) {
    const auto& last = history.final ? history.final : history.first_attempt;
    if (last && counts_as_failed(*last)) ids.insert(last->id);
  }
  return {ids.begin(), ids.end()};
}

}  // namespace cgconform::harness

#include "suites/checks/expansion_audit.hpp"

#include <algorithm>
#include <unordered_set>

#include <fmt/format.h>
#include <xxhash.h>

#include "matrix/cell_classifier.hpp"

namespace cgconform::suites::checks {
namespace {

constexpr std::uint64_t cells_looked_at = 5000;

bool admits_all(std::span<const std::uint32_t> /*coordinates*/) {
  return true;
}

std::optional<std::string> audit_cell(const matrix::Classification& found,
                                      const std::string& skip_reason) {
  switch (found.status) {
    case matrix::CellStatus::run:
      if (!found.rules.empty()) return "runs although it breaks rules";
      return std::nullopt;
    case matrix::CellStatus::refused:
      if (found.rules.empty()) return "is refused without a rule";
      return std::nullopt;
    case matrix::CellStatus::skipped:
      if (skip_reason.empty()) return "is skipped without a reason";
      return std::nullopt;
  }
  return "is neither run nor refused nor skipped";
}

}  // namespace

ExpansionCount count_expansion(const matrix::Expansion& expansion, std::uint64_t stride,
                               std::optional<std::string>& problem) {
  constexpr auto device = matrix::TargetDevice::reference;
  matrix::CellClassifier classifier(expansion, admits_all, device);
  std::unordered_set<std::string> ids;
  ExpansionCount count;
  for (std::uint64_t index = 0; index < expansion.size(); index += stride) {
    const matrix::Classification& found = classifier.classify(index);
    const matrix::CellName name = expansion.name(index);
    const std::string reason = matrix::skip_text(found, expansion, device);
    if (auto wrong = audit_cell(found, reason)) {
      problem = fmt::format("cell {} {}", name.id, *wrong);
    }
    if (!ids.insert(name.id).second) problem = fmt::format("two cells have the id {}", name.id);
    if (expansion.find(name.id) != index) {
      problem = fmt::format("the id {} does not lead back to cell {}", name.id, index);
    }
    ++count.total;
    count.run += found.status == matrix::CellStatus::run ? 1 : 0;
    count.refused += found.status == matrix::CellStatus::refused ? 1 : 0;
    count.skipped += found.status == matrix::CellStatus::skipped ? 1 : 0;
    const std::string line =
        fmt::format("{} {} {} {}", name.id, name.hash, static_cast<int>(found.status), reason);
    count.digest = XXH3_64bits_withSeed(line.data(), line.size(), count.digest);
  }
  return count;
}

CheckResult judge_expansion(ScenarioContext& /*context*/) {
  std::uint64_t total = 0;
  for (const matrix::BuiltinMatrix& builtin : matrix::builtin_matrices()) {
    const matrix::Expansion first(matrix::load_matrix(std::string(builtin.name)));
    const matrix::Expansion again(matrix::load_matrix(std::string(builtin.name)));
    const std::uint64_t stride = std::max<std::uint64_t>(1, first.size() / cells_looked_at);
    std::optional<std::string> problem;
    const ExpansionCount count = count_expansion(first, stride, problem);
    const ExpansionCount repeat = count_expansion(again, stride, problem);
    if (count.total != count.run + count.refused + count.skipped) {
      problem = fmt::format("{} cells, but {} run, {} refused and {} skipped", count.total,
                            count.run, count.refused, count.skipped);
    }
    if (count.digest != repeat.digest) problem = "ids, order or verdicts change between expansions";
    if (problem) {
      return {.verdict = Verdict::fail_suite,
              .detail = fmt::format("matrix '{}': {}", builtin.name, *problem)};
    }
    total += count.total;
  }
  if (total == 0)
    return {.verdict = Verdict::fail_suite, .detail = "no built-in matrix has a cell"};
  return {.detail = fmt::format("{} cells: total = run + refused + skipped, ids unique and stable",
                                total)};
}

}  // namespace cgconform::suites::checks

#include "harness/list_command.hpp"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <iterator>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/signal_guard.hpp"
#include "matrix/cell_environment.hpp"
#include "matrix/cell_name.hpp"
#include "matrix/error.hpp"

namespace cgconform::harness {
namespace {

using matrix::CellPlan;
using matrix::CellStatus;
using matrix::Classification;

constexpr std::size_t flush_bytes = std::size_t{1} << 16U;

void append(fmt::memory_buffer& out, std::string_view text) {
  out.append(text.data(), text.data() + text.size());
}

void append_rules(fmt::memory_buffer& out, const Classification& classification,
                  std::string_view quote, std::string_view separator) {
  bool first = true;
  for (const matrix::RuleIndex rule : classification.rules) {
    if (!first) append(out, separator);
    first = false;
    append(out, quote);
    append(out, matrix::rule_id(rule));
    append(out, quote);
  }
}

std::string_view status_name(CellStatus status) {
  switch (status) {
    case CellStatus::run:
      return "run";
    case CellStatus::refused:
      return "refused";
    case CellStatus::skipped:
      return "skipped";
  }
  return {};
}

std::string_view kind_name(matrix::CellKind kind) {
  return kind == matrix::CellKind::baseline ? "baseline" : "graph";
}

/// Writes cells of one plan in one format to a buffer and on to the output.
class CellPrinter {
 public:
  CellPrinter(const CellPlan& plan, const ListOptions& options) : plan_(plan), options_(options) {}

  /// False where the reader is gone.
  bool print(const CellPlan::Entry& entry) {
    id_.clear();
    matrix::append_id(plan_.expansion().axes(), entry.coordinates, id_);
    const std::string_view id(id_.data(), id_.size());
    const std::uint64_t hash = matrix::hash_id(id);
    switch (options_.format) {
      case ListFormat::text:
        print_text(entry, id, hash);
        break;
      case ListFormat::json_lines:
        print_json(entry, id, hash);
        break;
      case ListFormat::dry_run:
        print_plan(entry, id, hash);
        break;
    }
    const bool first = !std::exchange(started_, true);
    return first || buffer_.size() >= flush_bytes ? flush() : true;
  }

  bool print(std::string_view text) {
    append(buffer_, text);
    return flush();
  }

  bool flush() {
    const std::size_t written = std::fwrite(buffer_.data(), 1, buffer_.size(), options_.output);
    const bool complete = written == buffer_.size() && std::fflush(options_.output) == 0;
    buffer_.clear();
    if (complete) return true;
    if (errno == EPIPE) return false;
    throw Error(fmt::format("the list cannot be written: {}; check the output's disk and quota",
                            std::strerror(errno)));
  }

 private:
  void print_text(const CellPlan::Entry& entry, std::string_view id, std::uint64_t hash) {
    const Classification& result = entry.classification;
    append(buffer_, id);
    fmt::format_to(std::back_inserter(buffer_), "\t{:016x}\t{}\t{}", hash, entry.cell.ranks(),
                   status_name(result.status));
    if (result.status == CellStatus::refused) {
      append(buffer_, "(");
      append_rules(buffer_, result, "", ", ");
      append(buffer_, ")");
    } else if (result.status == CellStatus::skipped) {
      append(buffer_, "(");
      append(buffer_, plan_.skip_reason(result));
      append(buffer_, ")");
    } else if (!result.lifted.empty()) {
      append(buffer_, "(lifted)");
    } else if (result.kind == matrix::CellKind::baseline) {
      append(buffer_, "(baseline)");
    }
    append(buffer_, "\n");
  }

  /// Tokens, rule ids and feature names need no escapes.
  void print_json(const CellPlan::Entry& entry, std::string_view id, std::uint64_t hash) {
    const Classification& result = entry.classification;
    fmt::format_to(
        std::back_inserter(buffer_),
        R"({{"index":{},"id":"{}","hash":"{:016x}","ranks":{},"status":"{}","kind":"{}")",
        entry.index, id, hash, entry.cell.ranks(), status_name(result.status),
        kind_name(result.kind));
    if (result.status == CellStatus::refused) {
      append(buffer_, R"(,"rules":[)");
      append_rules(buffer_, result, "\"", ",");
      append(buffer_, "]");
    } else if (result.status == CellStatus::skipped) {
      append(buffer_, R"(,"reason":")");
      append(buffer_, plan_.skip_reason(result));
      append(buffer_, "\"");
    }
    append(buffer_, "}\n");
  }

  void print_plan(const CellPlan::Entry& entry, std::string_view id, std::uint64_t hash) {
    const Classification& result = entry.classification;
    const auto out = std::back_inserter(buffer_);
    if (result.status == CellStatus::refused) {
      fmt::format_to(out, "refuse  {}\n        rules: ", id);
      append_rules(buffer_, result, "", ", ");
      append(buffer_, "\n");
      return;
    }
    if (result.status == CellStatus::skipped) {
      fmt::format_to(out, "skip    {}\n        {}\n", id, plan_.skip_reason(result));
      return;
    }
    fmt::format_to(out,
                   "run     {}\n        {}, {} ranks, cost {}\n        {}mpirun -np {} "
                   "cgconform --matrix {} --filter {:016x}\n",
                   id, kind_name(result.kind), entry.cell.ranks(), matrix::cell_cost(entry.cell),
                   matrix::environment_prefix(matrix::cell_environment(entry.cell)),
                   entry.cell.ranks(), options_.matrix_argument, hash);
  }

  const CellPlan& plan_;
  const ListOptions& options_;
  fmt::memory_buffer buffer_;
  fmt::memory_buffer id_;
  bool started_ = false;
};

/// The totals with what a run does beyond running each cell once.
std::string total_text(const matrix::PlanTotals& totals, const ListOptions& options) {
  std::string text = matrix::totals_line(totals);
  if (!options.scenarios.empty()) {
    text += fmt::format("; beside them {}", fmt::join(options.scenarios, " and "));
  }
  if (options.repeat > 1) text += fmt::format("; each is run {} times", options.repeat);
  return text + "\n";
}

std::string reasons(const matrix::PlanTotals& totals, std::uint64_t cost,
                    const ListOptions& options) {
  std::string text = total_text(totals, options);
  for (const auto& [rule, count] : totals.refused_by_rule) {
    text += fmt::format("{:>10}  refused by {}\n", count, rule);
  }
  for (const auto& [reason, count] : totals.skipped_by_reason) {
    text += fmt::format("{:>10}  skipped, {}\n", count, reason);
  }
  return text + fmt::format("{:>10}  cost of the run, in layers times micro-batches\n",
                            cost * options.repeat);
}

}  // namespace

void list_cells(const CellPlan& plan, const ListOptions& options) {
  const IgnoredSignal ignored(SIGPIPE);
  CellPrinter printer(plan, options);
  matrix::PlanTotals totals;
  std::uint64_t cost = 0;
  bool reader = true;
  plan.for_each([&](const CellPlan::Entry& entry) {
    Classification scheduled = entry.classification;
    if (options.ranks > 0 && scheduled.status == CellStatus::run) {
      scheduled = matrix::classify_ranks(entry.normalised, options.ranks);
    }
    totals.count(scheduled);
    if (scheduled.status == CellStatus::run) cost += matrix::cell_cost(entry.cell);
    reader =
        printer.print({entry.index, entry.coordinates, scheduled, entry.cell, entry.normalised});
    return reader;
  });
  if (!reader || !printer.flush()) return;
  if (options.format == ListFormat::dry_run) {
    printer.print(reasons(totals, cost, options));
  } else if (options.summary != nullptr) {
    fmt::print(options.summary, "{}", total_text(totals, options));
  }
}

}  // namespace cgconform::harness

#include "harness/run_plan.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>
#include <xxhash.h>

#include "harness/deadlines.hpp"
#include "harness/earlier_report.hpp"
#include "harness/fingerprint.hpp"
#include "harness/matrix_source.hpp"
#include "harness/mock_cell.hpp"
#include "harness/probe_plan.hpp"
#include "harness/rounds_source.hpp"
#include "harness/selftest_plan.hpp"
#include "matrix/error.hpp"
#include "matrix/matrix.hpp"

namespace cgconform::harness {
namespace {

std::string text_hash(std::string_view text) {
  return fmt::format("{:016x}", XXH3_64bits(text.data(), text.size()));
}

std::string matrix_hash(const std::string& name_or_path) {
  const auto builtin = matrix::builtin_matrices();
  const auto found = std::find_if(builtin.begin(), builtin.end(), [&](const auto& candidate) {
    return candidate.name == name_or_path;
  });
  return found == builtin.end() ? file_hash(name_or_path) : text_hash(found->text);
}

class MockPlanner final : public Planner {
 public:
  explicit MockPlanner(const RunOptions& options) : options_(options) {}
  void check_input() override { cells_ = read_mock_plan(options_.mock_plan); }
  RunPlan plan(const RunTarget& target) override {
    for (const MockCell& cell : cells_) {
      if (cell.ranks > target.ranks) {
        throw InputError(fmt::format("--mock: a cell needs {} ranks and this run has {}",
                                     cell.ranks, target.ranks));
      }
    }
    RunPlan plan;
    plan.source = rounds_source(options_.selection, options_.seed,
                                [this](std::uint64_t) { return mock_source(cells_); });
    plan.matrix_name = "mock";
    std::string text;
    for (const MockCell& cell : cells_) text += mock_to_text(cell);
    plan.matrix_hash = text_hash(text);
    return plan;
  }

 private:
  RunOptions options_;
  std::vector<MockCell> cells_;
};

class SelftestPlanner final : public Planner {
 public:
  explicit SelftestPlanner(const RunOptions& options) : options_(options) {}
  void check_input() override {
    for (const std::string& row : options_.selftest_rows) selftest_row(row);
  }
  RunPlan plan(const RunTarget& target) override { return plan_selftest(options_, target.ranks); }

 private:
  RunOptions options_;
};

class ProbePlanner final : public Planner {
 public:
  explicit ProbePlanner(const RunOptions& options) : options_(options) {}
  void check_input() override { chosen_probes(options_); }
  RunPlan plan(const RunTarget& target) override {
    return plan_probe(options_, target.device, target.ranks);
  }

 private:
  RunOptions options_;
};

class MatrixPlanner final : public Planner {
 public:
  explicit MatrixPlanner(const RunOptions& options) : options_(options) {}
  void check_input() override { plan_ = plan_matrix(options_, target_device(options_)); }
  RunPlan plan(const RunTarget& target) override {
    const auto device =
        target.device == "cuda" ? matrix::TargetDevice::cuda : matrix::TargetDevice::reference;
    if (plan_->device() != device || plan_->gpus_shared() != target.gpus_shared) {
      plan_ = plan_matrix(options_, device, target.gpus_shared);
    }
    RunPlan plan;
    plan.source = matrix_source(plan_, target.ranks, options_);
    plan.matrix_name = options_.matrix;
    plan.matrix_hash = matrix_hash(options_.matrix);
    const auto limit = plan_->expansion().matrix().limits.deadline_seconds;
    if (limit) plan.deadline_scale = scale_for(std::chrono::seconds{*limit});
    return plan;
  }

 private:
  /// The scale under which a replay may take so long.
  static double scale_for(std::chrono::milliseconds deadline) {
    const auto base = Deadlines(1.0).phase(workloads::Phase::replay);
    return static_cast<double>(deadline.count()) / static_cast<double>(base.count());
  }

  RunOptions options_;
  std::shared_ptr<const matrix::CellPlan> plan_;
};

/// Selects nothing.
constexpr std::string_view no_cell = "impl=none & !impl=none";

void refuse_unknown_cell(const matrix::Matrix& matrix, const matrix::PlanOptions& options,
                         const std::string& cell) {
  matrix::PlanOptions alone = options;
  alone.filter = cell;
  try {
    const matrix::CellPlan plan(matrix, alone);
  } catch (const InputError&) {
    throw InputError(
        fmt::format("--cell {}: no cell of matrix {} has this id or hash; --list prints them", cell,
                    matrix.name));
  }
}

}  // namespace

matrix::TargetDevice target_device(const RunOptions& options) {
  return options.device == DeviceChoice::cuda ? matrix::TargetDevice::cuda
                                              : matrix::TargetDevice::reference;
}

std::shared_ptr<const matrix::CellPlan> plan_matrix(RunOptions& options,
                                                    matrix::TargetDevice device, bool gpus_shared) {
  const Selection& selection = options.selection;
  matrix::PlanOptions plan_options;
  plan_options.filter = options.filter;
  plan_options.seed = options.seed;
  plan_options.device = device;
  plan_options.gpus_shared = gpus_shared;
  plan_options.allow_empty = selection.allow_empty;
  matrix::Matrix matrix = matrix::load_matrix(options.matrix, options.scale);
  RunOptions of_matrix = options;
  std::erase_if(of_matrix.cells, is_scenario);
  // A cell that is named is meant whether a strategy would choose it or not.
  if (!options.cells.empty()) matrix.strategy = {};
  for (const std::string& cell : of_matrix.cells) refuse_unknown_cell(matrix, plan_options, cell);
  plan_options.filter = effective_filter(of_matrix);
  if (!selection.rerun_failed.empty()) {
    options.rerun_ids = failed_cells(selection.rerun_failed,
                                     {options.matrix, matrix_hash(options.matrix), options.seed});
    plan_options.ids = options.rerun_ids;
    std::erase_if(plan_options.ids, is_scenario);
    if (options.rerun_ids.empty() && !selection.allow_empty) {
      throw InputError(
          fmt::format("--rerun-failed {}: no cell failed in that run; nothing to rerun",
                      selection.rerun_failed));
    }
  }
  const bool scenarios_alone = (!options.cells.empty() && of_matrix.cells.empty()) ||
                               (!selection.rerun_failed.empty() && plan_options.ids.empty());
  if (scenarios_alone) {
    plan_options.filter = no_cell;
    plan_options.allow_empty = true;
  }
  plan_options.lifted = options.lifts;
  plan_options.shard = selection.shard;
  plan_options.shuffle = selection.shuffle;
  plan_options.coverage_first = selection.budget.has_value();
  return std::make_shared<const matrix::CellPlan>(std::move(matrix), plan_options);
}

std::unique_ptr<Planner> planner_for(const RunOptions& options) {
  if (!options.mock_plan.empty()) return std::make_unique<MockPlanner>(options);
  if (options.probe) return std::make_unique<ProbePlanner>(options);
  if (options.selftest) return std::make_unique<SelftestPlanner>(options);
  return std::make_unique<MatrixPlanner>(options);
}

}  // namespace cgconform::harness

#include "harness/run_plan.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <xxhash.h>

#include "harness/fingerprint.hpp"
#include "harness/matrix_source.hpp"
#include "harness/mock_cell.hpp"
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

RunPlan plan_mock_cells(const RunOptions& options, int ranks) {
  std::vector<MockCell> cells = read_mock_plan(options.mock_plan);
  for (const MockCell& cell : cells) {
    if (cell.ranks > ranks) {
      throw InputError(
          fmt::format("mock plan: a cell needs {} ranks and this run has {}", cell.ranks, ranks));
    }
  }
  RunPlan plan;
  plan.source = mock_source(std::move(cells));
  plan.matrix_name = "mock";
  plan.matrix_hash = text_hash(options.mock_plan);
  return plan;
}

}  // namespace

matrix::TargetDevice target_device(const RunOptions& options) {
  return options.device == DeviceChoice::cuda ? matrix::TargetDevice::cuda
                                              : matrix::TargetDevice::reference;
}

std::shared_ptr<const matrix::CellPlan> plan_matrix(const RunOptions& options,
                                                    matrix::TargetDevice device) {
  matrix::PlanOptions plan_options;
  plan_options.filter = effective_filter(options);
  plan_options.seed = options.seed;
  plan_options.device = device;
  return std::make_shared<const matrix::CellPlan>(matrix::load_matrix(options.matrix),
                                                  plan_options);
}

Planner planner_for(const RunOptions& options) {
  return [options](const std::string& device, int ranks) {
    if (!options.mock_plan.empty()) return plan_mock_cells(options, ranks);
    if (options.selftest) return plan_selftest(options, ranks);
    RunPlan plan;
    plan.source =
        matrix_source(plan_matrix(options, device == "cuda" ? matrix::TargetDevice::cuda
                                                            : matrix::TargetDevice::reference),
                      ranks, options);
    plan.matrix_name = options.matrix;
    plan.matrix_hash = matrix_hash(options.matrix);
    return plan;
  };
}

}  // namespace cgconform::harness

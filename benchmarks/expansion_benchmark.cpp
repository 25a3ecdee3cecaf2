#include <cstdint>
#include <cstdio>
#include <memory>

#include <benchmark/benchmark.h>

#include "harness/list_command.hpp"
#include "matrix/cell_plan.hpp"
#include "matrix/matrix.hpp"

namespace cgconform {
namespace {

matrix::CellPlan plan_of_full(std::string filter = {}) {
  return {matrix::load_matrix("full"), {std::move(filter), 0, matrix::TargetDevice::reference}};
}

/// Cells expanded and classified a second; the target is one million on one core.
void expand_and_classify(benchmark::State& state) {
  const matrix::CellPlan plan = plan_of_full();
  std::uint64_t cells = 0;
  for (auto iteration : state) {
    const matrix::PlanTotals totals = plan.totals();
    benchmark::DoNotOptimize(totals.run);
    cells += totals.total;
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(cells));
}
BENCHMARK(expand_and_classify)->Unit(benchmark::kMillisecond);

/// Cells passed over by a filter that selects few.
void filter_cells(benchmark::State& state) {
  const matrix::CellPlan plan =
      plan_of_full("impl=local & scope=attn & recompute=core_attn & pp=8");
  for (auto iteration : state) benchmark::DoNotOptimize(plan.totals().total);
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(plan.expansion().size()));
}
BENCHMARK(filter_cells)->Unit(benchmark::kMillisecond);

/// Lines of `--list` (argument 0) and `--list=json` (1) a second; the target is half a million.
void list_full(benchmark::State& state) {
  const matrix::CellPlan plan = plan_of_full();
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> sink(std::fopen("/dev/null", "w"),
                                                             &std::fclose);
  harness::ListOptions options;
  options.format =
      state.range(0) == 0 ? harness::ListFormat::text : harness::ListFormat::json_lines;
  options.matrix_argument = "full";
  options.output = sink.get();
  options.summary = nullptr;
  for (auto iteration : state) harness::list_cells(plan, options);
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(plan.expansion().size()));
}
BENCHMARK(list_full)->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);

/// From the text of the matrix to the first classified cell; the target is 100 ms.
void reach_first_cell(benchmark::State& state) {
  for (auto iteration : state) {
    const matrix::CellPlan plan = plan_of_full();
    plan.for_each([](const matrix::CellPlan::Entry& entry) {
      benchmark::DoNotOptimize(entry.index);
      return false;
    });
  }
}
BENCHMARK(reach_first_cell)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace cgconform

BENCHMARK_MAIN();

#include "suites/checks/early_return.hpp"

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "matrix/cell.hpp"
#include "workloads/device/communicator.hpp"
#include "workloads/lifecycle/early_return.hpp"

namespace cgconform::suites::checks {
namespace {

using matrix::CaptureForm;
using matrix::CudaGraphImpl;
using matrix::CudaGraphModule;
using workloads::EarlyReturn;
using workloads::EarlyReturnTrial;
using workloads::ReturnPoint;

struct Way {
  std::string_view name;
  CudaGraphImpl impl;
  matrix::CudaGraphScope scope;
  CaptureForm form = CaptureForm::configured;
  bool on_one_rank_only = false;
};

constexpr std::array points{ReturnPoint::in_step, ReturnPoint::in_capture,
                            ReturnPoint::before_replay, ReturnPoint::in_flight};

std::vector<Way> ways_to_capture() {
  const matrix::CudaGraphScope iteration{CudaGraphModule::full_iteration};
  return {
      {"local", CudaGraphImpl::local, {}},
      {"transformer_engine", CudaGraphImpl::transformer_engine, {}},
      {"full iteration", CudaGraphImpl::local, iteration},
      {"partitioned", CudaGraphImpl::local, iteration, CaptureForm::partitioned, true},
      {"whole step", CudaGraphImpl::local, iteration, CaptureForm::whole_step},
  };
}

matrix::Cell small_training(const Way& way, int ranks) {
  matrix::Cell cell;
  cell.config.cuda_graph_impl = way.impl;
  cell.config.cuda_graph_scope = way.scope;
  cell.config.cuda_graph_warmup_steps = 1;
  cell.config.use_te_rng_tracker = true;
  cell.config.te_rng_tracker = true;
  cell.config.check_for_nan_in_loss = false;
  cell.config.data_parallel_size = ranks;
  cell.config.num_layers = 2;
  cell.config.hidden_size = 8;
  cell.config.num_attention_heads = 2;
  cell.config.seq_length = 4;
  cell.config.num_microbatches = 2;
  cell.shape.vocab_size = 16;
  cell.shape.ffn_hidden_size = 16;
  cell.shape.steps = 3;
  cell.shape.capture_form = way.form;
  return cell;
}

/// What is wrong after the return; empty where nothing is.
std::string find_trouble(const EarlyReturn& result, double undisturbed_seconds) {
  if (!result.kept.empty()) return "its cleanup keeps " + result.kept;
  if (!result.left.empty()) return "it leaves " + result.left;
  if (!result.again.empty()) return "the same training run again: " + result.again;
  return late_teardown(result.seconds, undisturbed_seconds);
}

/// The first rank's trouble; all ranks learn it, so that none goes on alone.
std::string first_trouble(const std::string& mine, workloads::Communicator* gang) {
  if (gang == nullptr) return mine;
  const std::vector<std::string> all = gang->exchange(mine);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (!all[rank].empty()) return fmt::format("rank {}: {}", rank, all[rank]);
  }
  return {};
}

}  // namespace

std::string late_teardown(double seconds, double undisturbed_seconds) {
  constexpr double grace = 10.0;  // of a host that is busy with other things
  constexpr double trainings = 10.0;
  const double limit = grace + trainings * undisturbed_seconds;
  if (seconds <= limit) return {};
  return fmt::format("its cleanup took {:.1f} s, the limit is {:.1f} s", seconds, limit);
}

CheckResult judge_early_return(ScenarioContext& context) {
  const int ranks = context.gang == nullptr ? 1 : context.gang->size();
  int returns = 0;
  for (const Way& way : ways_to_capture()) {
    if (way.on_one_rank_only && ranks > 1) continue;
    const matrix::Cell cell = small_training(way, ranks);
    EarlyReturnTrial trial(*context.device, context.gang, cell, context.seed);
    const std::string unsound = first_trouble(trial.trouble(), context.gang);
    if (!unsound.empty()) {
      return {.verdict = Verdict::fail_suite,
              .detail = fmt::format("{}, undisturbed: {}", way.name, unsound)};
    }
    for (const ReturnPoint point : points) {
      const std::string scene =
          fmt::format("{}, left {}", way.name, workloads::return_point_name(point));
      const EarlyReturn result = trial.run(point, context.faults);
      const std::string otherwise = first_trouble(result.ended, context.gang);
      if (!otherwise.empty()) {
        return {.verdict = Verdict::fail_suite, .detail = fmt::format("{}: {}", scene, otherwise)};
      }
      const std::string trouble =
          first_trouble(find_trouble(result, trial.undisturbed_seconds()), context.gang);
      if (!trouble.empty()) {
        return {.verdict = Verdict::fail_teardown, .detail = fmt::format("{}: {}", scene, trouble)};
      }
      ++returns;
    }
  }
  return {.detail = fmt::format("{} early returns left nothing behind, and training went on as if "
                                "there had been none",
                                returns)};
}

}  // namespace cgconform::suites::checks

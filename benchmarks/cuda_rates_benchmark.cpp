// Rates of the workload on a GPU, to be read beside scripts/pytorch_peer.py:
//   the forward and backward of large layers against the machine's own large GEMM,
//   cells a second with exactly the legs that the peer runs, and with legs shared between cells,
//   and the launch of a graph against a bare cudaGraphLaunch.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "benchmarks/launch_cost.hpp"
#include "matrix/error.hpp"
#include "suites/checks/device_agreement.hpp"
#include "suites/comparison.hpp"
#include "suites/leg_set.hpp"
#include "suites/shared_legs.hpp"
#include "workloads/allocator/caching_allocator.hpp"
#include "workloads/device/cuda/cuda_device.hpp"
#include "workloads/device/host_memory.hpp"
#include "workloads/ops/fill.hpp"
#include "workloads/ops/gemm.hpp"
#include "workloads/training/leg.hpp"
#include "workloads/training/stage_model.hpp"

namespace cgconform {
namespace {

using workloads::Buffer;
using workloads::CachingAllocator;
using workloads::default_pool;
using workloads::Device;
using workloads::DType;
using workloads::Shape;
using workloads::Stream;

/// Milliseconds of the device for one call of `work`, on average over `repeats` after one warm-up.
template <typename Work>
double device_milliseconds(Device& device, Stream& stream, int repeats, Work&& work) {
  work();
  const auto start = device.create_event(workloads::EventKind::timing);
  const auto end = device.create_event(workloads::EventKind::timing);
  stream.record(*start);
  for (int i = 0; i < repeats; ++i) work();
  stream.record(*end);
  end->synchronize();
  return end->elapsed_since(*start) / repeats;
}

/// Teraflops a second of one large product in the type.
double gemm_rate(Device& device, DType dtype) {
  constexpr std::int64_t extent = 8192;
  const auto stream = device.create_stream("gemm");
  CachingAllocator allocator(device.segment_source());
  std::vector<Buffer> operands;
  for (const char* name : {"c", "a", "b"}) {
    operands.emplace_back(allocator, *stream, default_pool, dtype, Shape{extent, extent}, name);
    workloads::fill_normal(*stream, operands.back().view(), {1, operands.size(), 1.0F, 0.0F}, name);
  }
  const double milliseconds = device_milliseconds(device, *stream, 20, [&] {
    workloads::gemm(*stream, operands[0].view(), operands[1].view(), false, operands[2].view(),
                    true, "large gemm");
  });
  return 2.0 * extent * extent * extent / milliseconds / 1e9;
}

matrix::Cell large_cell(matrix::ParamsDtype dtype) {
  matrix::Cell cell;
  cell.config.params_dtype = dtype;
  cell.config.num_layers = 2;
  cell.config.hidden_size = 4096;
  cell.config.num_attention_heads = 32;
  cell.config.seq_length = 2048;
  cell.config.micro_batch_size = 4;
  cell.config.attention_dropout = 0.0F;
  cell.config.hidden_dropout = 0.0F;
  cell.shape.ffn_hidden_size = 4 * 4096;
  return cell;
}

/// Operations of one forward and backward: six a weight of the layers' products and token, and
/// those of causal attention, whose masked half does not count.
double operations(const matrix::Cell& cell) {
  const double hidden = cell.config.hidden_size;
  const double ffn = cell.shape.ffn_hidden_size;
  const double length = cell.config.seq_length;
  const double tokens = length * cell.config.micro_batch_size;
  const double weights = 4.0 * hidden * hidden + 2.0 * hidden * ffn;
  return cell.config.num_layers * tokens * (6.0 * weights + 6.0 * hidden * length);
}

/// Teraflops a second of forward and backward of the cell's layers.
double layer_rate(Device& device, const matrix::Cell& cell) {
  const auto stream = device.create_stream("layers");
  CachingAllocator allocator(device.segment_source());
  const auto model = workloads::make_stage_model(cell, 1, 0, allocator, *stream);
  const Shape hidden{std::int64_t{cell.config.seq_length} * cell.config.micro_batch_size,
                     cell.config.hidden_size};
  const DType dtype = model->parameters().front().parameter.weight.dtype;
  const Buffer input(allocator, *stream, default_pool, dtype, hidden, "input");
  const Buffer grad_output(allocator, *stream, default_pool, dtype, hidden, "grad_output");
  workloads::fill_normal(*stream, input.view(), {2, 1, 1.0F, 0.0F}, "input");
  workloads::fill_normal(*stream, grad_output.view(), {2, 2, 1.0F, 0.0F}, "grad_output");
  const Buffer random(allocator, *stream, default_pool, DType::uint64, Shape{2}, "random");
  stream->fill(random.view(), 0, "random");
  const workloads::FaultSwitches no_faults;
  workloads::LayerContext context{.stream = *stream,
                                  .allocator = allocator,
                                  .rng = {random.view()},
                                  .faults = no_faults,
                                  .label = "benchmark"};
  const double milliseconds = device_milliseconds(device, *stream, 10, [&] {
    std::vector<workloads::SavedActivations> saved(model->layers().size());
    Buffer passed;
    for (std::size_t layer = 0; layer < saved.size(); ++layer) {
      const workloads::TensorView in = layer == 0 ? input.view() : passed.view();
      passed = model->layers()[layer]->forward(context, in, saved[layer]);
    }
    for (std::size_t layer = saved.size(); layer-- > 0;) {
      const workloads::TensorView grad =
          layer + 1 == saved.size() ? grad_output.view() : passed.view();
      passed = model->layers()[layer]->backward(context, grad, saved[layer]);
    }
  });
  return operations(cell) / milliseconds / 1e9;
}

/// The cell of scripts/pytorch_peer.py.
matrix::Cell peer_cell(bool full_iteration) {
  matrix::Cell cell;
  cell.config.cuda_graph_impl = matrix::CudaGraphImpl::local;
  if (full_iteration) cell.config.cuda_graph_scope = {matrix::CudaGraphModule::full_iteration};
  cell.config.cuda_graph_warmup_steps = 1;
  cell.config.use_te_rng_tracker = true;
  cell.config.te_rng_tracker = true;
  cell.config.check_for_nan_in_loss = false;
  cell.config.num_layers = 4;
  cell.config.hidden_size = 128;
  cell.config.num_attention_heads = 4;
  cell.config.seq_length = 64;
  cell.config.micro_batch_size = 2;
  cell.config.attention_dropout = 0.0F;
  cell.config.hidden_dropout = 0.0F;
  cell.shape.vocab_size = 128;
  cell.shape.ffn_hidden_size = 512;
  cell.shape.steps = 4;
  return cell;
}

workloads::LegRecord run(Device& device, const matrix::Cell& cell,
                         const workloads::LegRequest& request) {
  workloads::LegRecord record = workloads::run_leg(cell, request, {.device = device, .seed = 1});
  if (!record.error.empty()) throw Error(record.error);
  return record;
}

/// Milliseconds by leg and phase, summed up over cells.
using PhaseSums = std::map<std::string, std::vector<workloads::PhaseTiming>>;

void add_timings(const std::string& leg, const workloads::LegRecord& record, PhaseSums& sums) {
  std::vector<workloads::PhaseTiming>& known = sums[leg];
  for (const workloads::PhaseTiming& timing : record.timings) {
    const auto same = std::find_if(known.begin(), known.end(),
                                   [&](const auto& other) { return other.phase == timing.phase; });
    if (same == known.end()) {
      known.push_back(timing);
    } else {
      same->milliseconds += timing.milliseconds;
    }
  }
}

void print_phases(const PhaseSums& sums, int cells) {
  for (const auto& [leg, timings] : sums) {
    fmt::print("  {} leg:", leg);
    for (const workloads::PhaseTiming& timing : timings) {
      fmt::print(" {} {:.2f}", phase_name(timing.phase), timing.milliseconds / cells);
    }
    fmt::print(" ms\n");
  }
}

/// What the peer does for one cell: eager leg, graph leg, and a comparison of all that both show:
/// outputs, input gradients, losses, gradients, weights and optimizer state of every step.
class PeerCells {
 public:
  PeerCells(Device& device, bool full_iteration)
      : device_(&device),
        cell_(peer_cell(full_iteration)),
        comparator_(suites::create_device_comparator(device)),
        controls_(std::make_shared<suites::ControlTensors>(device)) {}

  /// Runs the legs afresh, or takes the eager one from `shared` where it is given.
  void run_one(suites::SharedLegs* shared) {
    suites::ControlledComparator controlled(*device_, *comparator_, controls_);
    suites::LegSet legs(cell_, controlled);
    const suites::LegOwner owner{.cell = fmt::format("cell {}", cells_++), .seed = 1};
    for (const auto& request : {suites::eager_leg(), suites::graph_leg()}) {
      const auto run_leg = [&] { return run(*device_, cell_, request); };
      suites::SourcedLeg leg = shared == nullptr ? suites::SourcedLeg(run_leg())
                                                 : shared->take(owner, cell_, request, run_leg);
      if (leg.from.empty()) add_timings(suites::leg_name(request), *leg.record, phases);
      if (request.kind == workloads::LegKind::eager) {
        launches = leg.record->totals.eager_launches;
        eager_legs_run += leg.from.empty() ? 1 : 0;
      }
      legs.add(request, {.leg = std::move(leg), .ran = true});
    }
    const auto& difference = legs.difference(suites::eager_leg(), suites::graph_leg());
    compared = controlled.comparisons();
    if (difference.first() != nullptr) throw Error("the graph leg differs from the eager leg");
  }

  std::uint64_t launches_a_step() const {
    return launches / static_cast<std::uint64_t>(cell_.shape.steps);
  }

  PhaseSums phases;
  std::uint64_t launches = 0;
  std::uint64_t compared = 0;
  int eager_legs_run = 0;
  double seconds = 0.0;  ///< a cell

 private:
  Device* device_;
  matrix::Cell cell_;
  std::unique_ptr<suites::TensorComparator> comparator_;
  std::shared_ptr<suites::ControlTensors> controls_;
  int cells_ = 0;
};

/// How fast cells run with everything run afresh, or with the eager leg shared between cells.
class CellRate {
 public:
  CellRate(Device& device, bool full_iteration, bool shares)
      : device_(device), full_iteration_(full_iteration), shares_(shares) {}

  /// Times so many cells after one that is not timed.
  void run_round() {
    constexpr std::int64_t shared_bytes = std::int64_t{1} << 30;
    PeerCells(device_, full_iteration_).run_one(nullptr);
    suites::SharedLegs shared(device_, shared_bytes);
    PeerCells& cells = rounds_.emplace_back(device_, full_iteration_);
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < cells_a_round; ++i) cells.run_one(shares_ ? &shared : nullptr);
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    cells.seconds = spent.count() / cells_a_round;
  }
  void forget_rounds() { rounds_.clear(); }
  /// Cells a second of the last round.
  double last() const { return 1.0 / rounds_.back().seconds; }
  std::string name() const {
    return fmt::format("{}, {}", full_iteration_ ? "full iteration" : "graph a layer",
                       shares_ ? "legs shared between cells" : "nothing shared");
  }

  /// Prints the median of the rounds, and the best.
  void print() {
    const auto median = rounds_.begin() + static_cast<std::ptrdiff_t>(rounds_.size() / 2);
    const auto quicker = [](const PeerCells& a, const PeerCells& b) {
      return a.seconds < b.seconds;
    };
    std::nth_element(rounds_.begin(), median, rounds_.end(), quicker);
    const PeerCells& cells = *median;
    fmt::print(
        "cells a second, {}: {:.1f} (at best {:.1f}; {} eager legs for {} cells, {} launches a "
        "step in them, observation included; {} tensors compared)\n",
        name(), 1.0 / cells.seconds,
        1.0 / std::min_element(rounds_.begin(), rounds_.end(), quicker)->seconds,
        cells.eager_legs_run, cells_a_round, cells.launches_a_step(), cells.compared);
    fmt::print("  {:.2f} ms a cell, of which:\n", 1e3 * cells.seconds);
    print_phases(cells.phases, cells_a_round);
  }

 private:
  static constexpr int cells_a_round = 20;

  Device& device_;
  bool full_iteration_;
  bool shares_;
  std::vector<PeerCells> rounds_;
};

/// One of each kind, warm: a first round lets clocks rise and memory be held, which the peer's
/// longer run does anyway.
std::vector<CellRate> warm_cell_rates(Device& device) {
  std::vector<CellRate> rates;
  for (const bool shares : {false, true}) {
    for (const bool full_iteration : {false, true}) {
      rates.emplace_back(device, full_iteration, shares).run_round();
      rates.back().forget_rounds();
    }
  }
  return rates;
}

/// The rounds take turns, so that a slow while of the machine does not become a rate.
void print_cell_rates(Device& device) {
  constexpr int rounds = 12;
  std::vector<CellRate> rates = warm_cell_rates(device);
  for (int round = 0; round < rounds; ++round) {
    for (CellRate& rate : rates) rate.run_round();
  }
  for (CellRate& rate : rates) rate.print();
}

/// Runs a round of each kind whenever a line comes in, and prints its rates: another program, as
/// scripts/pytorch_peer.py does, takes turns with this one.
void print_rates_in_turns(Device& device) {
  std::vector<CellRate> rates = warm_cell_rates(device);
  fmt::print("ready\n");
  std::fflush(stdout);
  for (std::string line; std::getline(std::cin, line);) {
    for (CellRate& rate : rates) {
      rate.run_round();
      fmt::print("{}: {:.2f}\n", rate.name(), rate.last());
    }
    fmt::print("end of round\n");
    std::fflush(stdout);
  }
}

void print_layer_rate(Device& device, matrix::ParamsDtype dtype, DType type) {
  const double gemm = gemm_rate(device, type);
  const double layers = layer_rate(device, large_cell(dtype));
  fmt::print(
      "{}: large gemm {:.0f} TFLOP/s, forward and backward at hidden 4096 and 8192 tokens "
      "{:.0f} TFLOP/s, ratio {:.3f}\n",
      workloads::dtype_name(type), gemm, layers, layers / gemm);
}

/// Runs NUM-34 alone.
void print_agreement(Device& device) {
  suites::ScenarioContext context;
  context.device = &device;
  context.run_eager_leg = [](Device& chosen, const matrix::Cell& cell) {
    return workloads::run_leg(cell, {}, {.device = chosen, .seed = 1});
  };
  const suites::CheckResult result = suites::checks::judge_device_agreement(context);
  fmt::print("agreement with the reference device: {}\n", result.detail);
}

int run_all(const std::vector<std::string_view>& parts) {
  if (workloads::cuda_device_count() == 0) {
    fmt::print("this machine has no NVIDIA device: nothing measured\n");
    return 0;
  }
  workloads::keep_freed_host_memory();  // as a worker
  const auto device = workloads::create_cuda_device({});
  if (std::find(parts.begin(), parts.end(), "turns") != parts.end()) {
    print_rates_in_turns(*device);
    return 0;
  }
  const auto wanted = [&](std::string_view part) {
    for (const std::string_view given : parts) {
      if (given == part) return true;
    }
    return parts.empty();
  };
  fmt::print("{}\n", device->properties().name);
  if (wanted("agreement")) print_agreement(*device);
  if (wanted("layers")) {
    print_layer_rate(*device, matrix::ParamsDtype::bf16, DType::bf16);
    print_layer_rate(*device, matrix::ParamsDtype::fp16, DType::fp16);
  }
  if (wanted("launch")) print_launch_cost(*device);
  if (wanted("cells")) print_cell_rates(*device);
  return 0;
}

}  // namespace
}  // namespace cgconform

int main(int argc, char** argv) {
  try {
    return cgconform::run_all({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    fmt::print(stderr, "cuda_rates_benchmark: {}\n", error.what());
    return 1;
  }
}

#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "suites/cell_runner.hpp"
#include "suites/coverage_plan.hpp"
#include "suites/leg_set.hpp"
#include "suites/recompute_plan.hpp"
#include "workloads/allocator/caching_allocator.hpp"
#include "workloads/device/device.hpp"
#include "workloads/training/leg_record.hpp"

/// Legs written by hand, as a healthy workload would leave them, for judging the judges: a test
/// makes them, breaks one thing and looks at the verdict.
namespace cgconform::suites {

using workloads::LegRecord;
using workloads::LegRequest;
using workloads::ObservedQuantity;
using workloads::TensorLocation;

class SyntheticLegs {
 public:
  static matrix::Cell cell() {
    matrix::Cell cell;
    cell.config.cuda_graph_impl = matrix::CudaGraphImpl::local;
    cell.config.num_layers = 2;
    cell.config.num_microbatches = 3;
    cell.config.hidden_dropout = 0.1F;
    cell.shape.steps = 3;
    return cell;
  }

  workloads::Device& device() { return *device_; }
  workloads::Stream& stream() { return *stream_; }

  /// A tensor of four numbers in device memory.
  workloads::Buffer tensor(float first) {
    workloads::Buffer buffer(allocator_, *stream_, workloads::default_pool, workloads::DType::fp32,
                             workloads::Shape{4}, "synthetic");
    write(buffer.view(), first);
    return buffer;
  }

  void write(const workloads::TensorView& tensor, float first) {
    const std::vector<float> values{first, first + 1, first + 2, first + 3};
    stream_->upload(tensor, values.data(), false, "synthetic");
    stream_->synchronize();
  }

  /// The leg a healthy run of `cell` leaves.
  LegRecord healthy(const matrix::Cell& asked, const LegRequest& request) {
    matrix::Cell cell = asked;
    if (request.warmup_steps >= 0) cell.config.cuda_graph_warmup_steps = request.warmup_steps;
    if (request.steps > 0) {
      cell.shape.steps = request.steps;
      cell.shape.eval_interval = 0;
    }
    LegRecord record;
    record.totals.eager_launches = request.without_recompute ? 100 : 200;
    if (request.cycles == 0) observe(cell, request, record);
    if (request.kind == workloads::LegKind::graph) capture(cell, request, record);
    record.timings.push_back({workloads::Phase::eager, 1.0});
    for (std::int32_t step = 0; request.timed && step < planned_steps(cell); ++step) {
      const bool replays = request.kind == workloads::LegKind::graph && step > 0;
      record.steps.push_back({.step = step, .replayed = replays, .host = 0.5, .device = 1.0});
    }
    record.polls.push_back({.communicator = "gang", .phase = workloads::Phase::eager, .polls = 1});
    if (request.kind == workloads::LegKind::graph && !request.timed) {
      record.agreements.eager = static_cast<std::uint64_t>(planned_steps(cell));
    }
    remember(cell, request, record);
    return record;
  }

  /// The first observation of a quantity at or after a step.
  static workloads::Observation& find(LegRecord& record, ObservedQuantity quantity,
                                      std::int32_t step) {
    for (auto& observation : record.observations) {
      if (observation.quantity == quantity && observation.where.step >= step) return observation;
    }
    throw InternalError("no such observation");
  }

 private:
  /// Values follow from the place alone, so that all legs agree and no two places do.
  void add(LegRecord& record, ObservedQuantity quantity, TensorLocation where) {
    const int place = ((where.step * 16 + where.microbatch + 1) * 16 + where.layer + 1) * 16;
    const bool again = quantity == ObservedQuantity::recomputed_mask;
    const auto value = static_cast<float>(
        place + static_cast<int>(again ? ObservedQuantity::dropout_mask : quantity));
    record.observations.push_back({quantity, std::move(where), tensor(value)});
  }

  void observe(const matrix::Cell& cell, const LegRequest& request, LegRecord& record) {
    for (std::int32_t step = 0; step < planned_steps(cell); ++step) {
      for (std::int32_t m = 0; m < cell.config.num_microbatches; ++m) {
        add(record, ObservedQuantity::input_batch,
            {.step = step, .microbatch = m, .tensor = "tokens"});
        add(record, ObservedQuantity::input_batch,
            {.step = step, .microbatch = m, .tensor = "loss_mask"});
        for (std::int32_t layer = 0; layer < cell.config.num_layers; ++layer) {
          if (request.instrumented) {
            add(record, ObservedQuantity::dropout_mask,
                {.step = step, .microbatch = m, .layer = layer, .tensor = "mask"});
            if (redraws_mask(cell, layer, "mask", false)) {
              add(record, ObservedQuantity::recomputed_mask,
                  {.step = step, .microbatch = m, .layer = layer, .tensor = "mask"});
            }
          }
          add(record, ObservedQuantity::layer_output,
              {.step = step, .microbatch = m, .layer = layer, .tensor = "output"});
        }
        add(record, ObservedQuantity::loss, {.step = step, .microbatch = m, .tensor = "loss"});
        for (std::int32_t layer = cell.config.num_layers; layer-- > 0;) {
          add(record, ObservedQuantity::layer_grad_input,
              {.step = step, .microbatch = m, .layer = layer, .tensor = "grad_input"});
        }
      }
      for (std::int32_t layer = 0; layer < cell.config.num_layers; ++layer) {
        add(record, ObservedQuantity::main_grad,
            {.step = step, .layer = layer, .tensor = "main_grad:w"});
        add(record, ObservedQuantity::weight, {.step = step, .layer = layer, .tensor = "weight:w"});
      }
      add(record, ObservedQuantity::optimizer_state, {.step = step, .tensor = "exp_avg:w"});
      add(record, ObservedQuantity::training_state, {.step = step, .tensor = "token_count"});
      add(record, ObservedQuantity::rng_state, {.step = step, .tensor = "rng_state"});
    }
  }

  static constexpr std::uint64_t nodes_a_graph = 3;

  static void capture(const matrix::Cell& cell, const LegRequest& request, LegRecord& record) {
    const CoveragePlan plan = plan_coverage(cell, 0);
    for (const PlannedGraph& planned : plan.graphs) {
      workloads::GraphRecord graph;
      graph.name = "layer " + std::to_string(planned.layer) + (planned.forward ? " F " : " B ") +
                   std::to_string(planned.microbatch) + (planned.validation ? " validation" : "");
      if (planned.layer < 0) {
        graph.name = planned.validation ? "iteration validation" : "iteration training";
      }
      if (planned.optimizer) graph.scope = optimizer_scope;
      graph.layer = planned.layer;
      // Names a place only; with one stage a layer has one input for all micro-batches.
      static constexpr std::array<char, 64> slots{};
      const bool callables =
          cell.config.cuda_graph_impl == matrix::CudaGraphImpl::transformer_engine;
      if (callables && planned.forward) {
        graph.input = &slots.at(static_cast<std::size_t>(planned.layer));
      }
      graph.microbatch = planned.microbatch;
      graph.forward = planned.forward;
      graph.capture_order = static_cast<std::int32_t>(record.graphs.size());
      graph.capture_step = planned.capture_step;
      graph.launches = planned.launches;
      graph.nodes.resize(nodes_a_graph);
      for (auto& node : graph.nodes) {
        node.kind = workloads::NodeKind::kernel;
        node.operands.resize(2);
      }
      if (graph_recomputes(cell, planned, 0))
        graph.nodes.front().label = "layer 0 recompute scores";
      record.captures.push_back({.graph = graph.name,
                                 .calls = 5,
                                 .hash_before = 17,
                                 .hash_after = 17,
                                 .eager_body_launches = nodes_a_graph});
      graph.size = {.nodes = nodes_a_graph, .edges = 0};
      graph.dot = "digraph dot { \"0\"; \"1\"; \"2\" }";
      graph.times = {.capture = 1.0, .instantiate = 1.0, .upload = request.timed ? 1.0 : -1.0};
      if (!request.instrumented) {
        graph.times.launches.assign(request.timed ? planned.launches : 1, 0.5);
      }
      record.totals.graph_launches += planned.launches;
      record.totals.graph_nodes_run += planned.launches * nodes_a_graph;
      record.graphs.push_back(std::move(graph));
    }
    for (const PlannedExecution& planned : plan.executions) {
      record.executions.push_back({.step = planned.step,
                                   .microbatch = planned.microbatch,
                                   .layer = planned.layer,
                                   .forward = planned.forward,
                                   .validation = planned.validation,
                                   .replayed = planned.replayed,
                                   .graph = planned.graph,
                                   .eager_launches = planned.replayed ? 0 : nodes_a_graph,
                                   .graph_launches = planned.replayed ? 1U : 0U,
                                   .graph_nodes_run = planned.replayed ? nodes_a_graph : 0,
                                   .host_executions = planned.replayed ? 0U : 1U,
                                   .scope = planned.scope});
    }
    if (!request.instrumented) return;
    using workloads::SlotKind;
    for (const SlotKind kind : {SlotKind::static_input, SlotKind::output,
                                SlotKind::saved_activation, SlotKind::weight_grad}) {
      record.slots.push_back(
          {kind, {.step = 1, .microbatch = 0, .layer = 0, .tensor = "slot"}, 5, 5});
    }
  }

  /// What the leg held: a pool for all graphs or one for each, and nothing that stays.
  static void remember(const matrix::Cell& cell, const LegRequest& request, LegRecord& record) {
    constexpr std::int64_t segment = 2 << 20;
    const workloads::PoolStatistics pool{.peak_active_bytes = 1000, .peak_reserved_bytes = segment};
    record.pools["default"] = pool;
    const workloads::MemorySample level{.taken = true, .live_blocks = 9, .active_bytes = 900};
    record.memory_at_start = level;
    record.memory_at_end = level;
    record.teardown = {.done = true, .operands = 8};
    record.guards_inspected = request.instrumented ? 4 : 0;
    if (request.kind == workloads::LegKind::eager) return;
    const bool separate =
        (cell.platform.graph_pool == matrix::GraphPool::separate) != request.other_pools;
    const std::size_t pools = separate ? record.graphs.size() : 1;
    for (std::size_t i = 0; i < pools; ++i) {
      record.pools["graph " + std::to_string(i)] = {.peak_active_bytes = 100,
                                                    .peak_reserved_bytes = segment};
    }
    std::int32_t order = 0;
    for (auto& graph : record.graphs) graph.destroy_order = order++;
    for (std::int32_t cycle = 0; cycle < request.cycles; ++cycle) {
      record.cycles.push_back({.captures = 4, .replays = 4, .after = level});
    }
  }

  std::unique_ptr<workloads::Device> device_ = workloads::create_reference_device({});
  std::unique_ptr<workloads::Stream> stream_ = device_->create_stream("synthetic");
  workloads::CachingAllocator allocator_{device_->segment_source()};
};

}  // namespace cgconform::suites

#include "suites/probe_rows.hpp"

namespace cgconform::suites {
namespace {

using matrix::Cell;
using matrix::CudaGraphModule;
using matrix::CudaGraphScope;
using workloads::Fault;

constexpr std::string_view host_counts =
    "the dispatcher waits for token counts on the host, which fails the capture";
constexpr std::string_view crossing =
    "the recompute crosses the border of a graph and routes again outside of it";

Cell dropless(std::string_view base, CudaGraphScope scope) {
  Cell cell = probe_cell(base);
  cell.model_kind = matrix::ModelKind::moe_dropless;
  cell.config.num_moe_experts = 4;
  cell.config.moe_token_dispatcher_type = matrix::MoeTokenDispatcherType::alltoall;
  cell.config.cuda_graph_scope = scope;
  return cell;
}

Cell counted_on_the_host() {
  Cell cell = dropless("transformer-engine",
                       {CudaGraphModule::moe_router, CudaGraphModule::moe_preprocess});
  cell.config.moe_expert_capacity_factor = 1.0F;
  return cell;
}

Cell recomputing_experts(std::string_view base, CudaGraphScope scope) {
  Cell cell = dropless(base, scope);
  cell.config.recompute_granularity = matrix::RecomputeGranularity::selective;
  cell.config.recompute_modules = matrix::RecomputeModules{matrix::RecomputeModule::moe};
  return cell;
}

Cell jittered() {
  Cell cell = recomputing_experts("full-iteration", {CudaGraphModule::full_iteration});
  cell.model_kind = matrix::ModelKind::moe_drop_and_pad;
  cell.config.moe_expert_capacity_factor = 2.0F;
  cell.config.moe_pad_expert_input_to_capacity = true;
  cell.config.moe_input_jitter_eps = 0.01F;
  return cell;
}

}  // namespace

std::vector<Probe> moe_probes() {
  return {
      {.rule = "moe-scope-needs-drop-and-pad",
       .protects = host_counts,
       .cell = dropless("transformer-engine", {CudaGraphModule::moe}),
       .expected = Verdict::fail_capture,
       .check_id = "LIF-01"},
      {.rule = "hz-whole-layer-dropless-moe",
       .variant = "local",
       .protects = host_counts,
       .cell = dropless("local", {}),
       .expected = Verdict::fail_capture,
       .check_id = "LIF-01"},
      {.rule = "hz-whole-layer-dropless-moe",
       .variant = "transformer-engine",
       .protects = host_counts,
       .cell = dropless("transformer-engine", {}),
       .expected = Verdict::fail_capture,
       .check_id = "LIF-01"},
      {.rule = "hz-full-iter-dropless",
       .protects = host_counts,
       .cell = dropless("full-iteration", {CudaGraphModule::full_iteration}),
       .expected = Verdict::fail_capture,
       .check_id = "LIF-01"},
      {.rule = "preprocess-no-dtoh",
       .protects = host_counts,
       .cell = counted_on_the_host(),
       .expected = Verdict::fail_capture,
       .check_id = "LIF-01"},
      {.rule = "dispatcher-dtoh-order",
       .protects = host_counts,
       .not_shown = "preprocess-no-dtoh shows the same read"},
      {.rule = "recompute-moe-vs-router-te",
       .protects = crossing,
       .cell = recomputing_experts("transformer-engine", {CudaGraphModule::moe_router})},
      {.rule = "graphed-recompute-moe-jitter",
       .protects = "the recomputed router draws another jitter than the first one",
       .cell = jittered(),
       .beside = {"graphed-recompute-hidden-dropout"}},
      {.rule = "tensor-store-not-in-capture",
       .protects = "tensors of an earlier call are captured in place of this one's",
       .not_shown = "no store of tensors between the parts of a layer"},
      {.rule = "ep-zero-copy-no-capture",
       .protects = "memory is allocated inside the capture",
       .cell = probe_cell("local"),
       .switches = {Fault::f19g_memory_allocated},
       .expected = Verdict::fail_capture,
       .check_id = "LIF-01"},
      {.rule = "qb-bounds-before-capture",
       .protects = "the host reads bounds inside the capture, which fails the capture",
       .cell = probe_cell("local"),
       .switches = {Fault::f19h_read_to_host},
       .expected = Verdict::fail_capture,
       .check_id = "LIF-01"},
      {.rule = "deepep-not-capturable",
       .protects = "the dispatch waits for the device inside the capture, which fails the capture",
       .cell = probe_cell("local"),
       .switches = {Fault::f19a_device_synchronize},
       .expected = Verdict::fail_capture,
       .check_id = "LIF-01"},
      {.rule = "bridge-hybridep-padding",
       .protects = "ranks bring unequal numbers of tokens to a captured exchange",
       .not_shown = "every rank has as many tokens"},
      {.rule = "ep-overlap-te-scope",
       .protects = "an exchange that should overlap waits inside a graph",
       .not_shown = "no overlapped exchange of experts"},
      {.rule = "ep-overlap-no-whole-layer",
       .protects = "the parts that should overlap are one graph",
       .not_shown = "no overlapped exchange of experts"},
  };
}

}  // namespace cgconform::suites

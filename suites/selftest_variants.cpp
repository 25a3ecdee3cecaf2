#include "suites/selftest_variants.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "matrix/error.hpp"

namespace cgconform::suites {
namespace {

using matrix::Cell;

Cell hybrid(Cell cell) {
  cell.model_kind = matrix::ModelKind::hybrid_mamba;
  cell.config.is_hybrid_model = true;
  return cell;
}

Cell packed(Cell cell) {
  cell.config.sequence_packing = matrix::SequencePacking::offline;
  cell.config.pad_to_max_length = true;
  cell.config.pad_cu_seqlens = true;
  return cell;
}

/// Linear layers in 8 bits, with scales by the largest magnitudes of three steps.
Cell quantised(Cell cell) {
  cell.config.fp8 = matrix::Fp8Format::hybrid;
  cell.config.fp8_amax_history_len = 3;
  cell.config.fp8_amax_compute_algo = matrix::Fp8AmaxComputeAlgo::max;
  return cell;
}

Cell replicated(Cell cell) {
  cell.config.data_parallel_size = 2;
  return cell;
}

/// Every third step ends with a micro-batch of one sequence in place of two. Without dropout: masks
/// of another shape would be the first thing to see.
Cell partial(Cell cell, matrix::LastBatch last) {
  cell.config.attention_dropout = 0.0F;
  cell.config.hidden_dropout = 0.0F;
  cell.config.micro_batch_size = 2;
  cell.shape.last_batch = last;
  return cell;
}

/// Weight gradients wait. Attention has no bias, as rules ask of captured attention.
Cell delayed(Cell cell) {
  cell.config.delay_wgrad_compute = true;
  cell.config.add_bias_linear = false;
  return cell;
}

/// Two replicas step shares of the parameters and gather them beside the next forward.
Cell gathering(Cell cell) {
  cell = replicated(cell);
  cell.config.use_distributed_optimizer = true;
  cell.config.overlap_param_gather = true;
  cell.config.num_microbatches = 1;
  cell.shape.bucket_size = 2048;
  return cell;
}

/// Without a graph of validation, which takes two calls more until it is replayed.
Cell unvalidated(Cell cell) {
  cell.shape.eval_interval = 0;
  return cell;
}

Cell with_scope(Cell cell, matrix::CudaGraphModule module) {
  cell.config.cuda_graph_scope = {module};
  return cell;
}

}  // namespace

std::vector<SelftestCell> with_variants(std::vector<SelftestCell> cells) {
  const auto cell_named = [&](std::string_view name) {
    const auto found = std::find_if(cells.begin(), cells.end(),
                                    [&](const SelftestCell& cell) { return cell.name == name; });
    if (found == cells.end()) throw InternalError("the self-test lacks a cell that others vary");
    return found->cell;
  };
  const Cell local = cell_named("local");
  const Cell pipeline = cell_named("local-pipeline");
  const Cell iteration = cell_named("full-iteration");
  const Cell callables = cell_named("transformer-engine");
  cells.push_back({"hybrid", hybrid(local), "F02f"});
  cells.push_back({"hybrid-iteration", hybrid(iteration), "F02f"});
  cells.push_back(
      {"hybrid-callables", with_scope(hybrid(callables), matrix::CudaGraphModule::mamba), "F02f"});
  cells.push_back({"packed", packed(pipeline), "F01e"});
  cells.push_back({"packed-iteration", packed(iteration), "F01e"});
  cells.push_back({"packed-callables", packed(callables), "F01e"});
  cells.push_back({"fp8", quantised(local), "F12"});
  cells.push_back({"fp8-iteration", quantised(cell_named("recompute")), "F12"});
  cells.push_back({"fp8-callables", replicated(quantised(callables)), "F12"});
  cells.push_back({"partial-padded", partial(iteration, matrix::LastBatch::padded), "F01f"});
  cells.push_back({"partial-iteration", partial(iteration, matrix::LastBatch::eager), "F34f"});
  cells.push_back({"partial-local", partial(pipeline, matrix::LastBatch::eager), "F34f"});
  cells.push_back({"partial-callables", partial(callables, matrix::LastBatch::eager), "F34f"});
  constexpr std::string_view delayed_faults = "F06d F14e F14f";
  cells.push_back({"delayed-iteration", delayed(iteration), delayed_faults});
  cells.push_back({"delayed-callables", delayed(callables), delayed_faults});
  constexpr std::string_view gather_faults = "F01g F19j";
  cells.push_back({"gather-iteration", unvalidated(gathering(iteration)), gather_faults});
  cells.push_back({"gather-callables", gathering(callables), gather_faults});
  return cells;
}

}  // namespace cgconform::suites

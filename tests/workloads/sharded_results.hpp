#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "matrix/cell.hpp"
#include "matrix/virtual_stages.hpp"
#include "tests/workloads/pipeline_legs.hpp"

/// Results of ranks that hold parts of a model, against those of one rank that holds all of it.
namespace cgconform::workloads::testing {

/// How many ranks each kind of parallelism has, and how many chunks a stage.
struct Layout {
  std::int32_t parts = 2;  ///< of each layer
  std::int32_t replicas = 1;
  std::int32_t expert_ranks = 1;
  std::int32_t stages = 1;
  std::int32_t chunks = 1;
};

/// A small model over the ranks of a layout, two layers a stage.
inline matrix::Cell spread_cell(const Layout& layout, matrix::CudaGraphImpl impl) {
  matrix::Cell cell = small_cell(impl);
  cell.config.num_layers = 2 * layout.stages;
  cell.config.tensor_model_parallel_size = layout.parts;
  cell.config.data_parallel_size = layout.replicas;
  cell.config.expert_model_parallel_size = layout.expert_ranks;
  cell.config.pipeline_model_parallel_size = layout.stages;
  if (layout.chunks > 1) cell.config.virtual_pipeline_model_parallel_size = layout.chunks;
  return cell;
}

inline std::vector<double> doubles_of(const std::vector<std::byte>& bytes) {
  std::vector<double> values(bytes.size() / sizeof(double));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

/// One of equal parts of each of `rows` neighbouring runs of numbers.
inline std::vector<double> part_of_each(const std::vector<double>& whole, std::size_t rows,
                                        std::size_t part, std::size_t parts) {
  const std::size_t width = whole.size() / rows;
  const std::size_t share = width / parts;
  std::vector<double> own;
  for (std::size_t row = 0; row < rows; ++row) {
    const auto begin = whole.begin() + static_cast<std::ptrdiff_t>(row * width + part * share);
    own.insert(own.end(), begin, begin + static_cast<std::ptrdiff_t>(share));
  }
  return own;
}

/// What a rank of the cell holds of a tensor of the whole model, cut by hand: rows of
/// column-parallel weights, those of queries, keys and values apart; columns of row-parallel ones;
/// of experts some, and of each of them rows or columns; of Mamba layers what belongs to its heads;
/// all of the vision encoder.
inline std::vector<double> held_by(const matrix::Cell& cell, std::int32_t rank,
                                   const std::string& tensor, std::vector<double> whole) {
  const matrix::TrainingConfig& config = cell.config;
  const auto part = static_cast<std::size_t>(matrix::tensor_rank_of(cell, rank));
  const auto parts = static_cast<std::size_t>(config.tensor_model_parallel_size);
  const auto hidden = static_cast<std::size_t>(config.hidden_size);
  const auto has = [&](const char* text) { return tensor.find(text) != std::string::npos; };
  if (has("vision")) return whole;
  std::size_t experts = 1;
  if (has("mlp.experts.")) {
    const auto groups = static_cast<std::size_t>(config.expert_model_parallel_size);
    const auto group = static_cast<std::size_t>(matrix::replica_of(cell, rank)) % groups;
    whole = part_of_each(whole, 1, group, groups);
    experts = static_cast<std::size_t>(config.num_moe_experts.value_or(1)) / groups;
  }
  if (has("mixer.") && !has("proj.states") && !has("conv1d.states")) {
    constexpr std::size_t taps = 4;
    const std::size_t rows = has("out_proj")               ? hidden
                             : has("conv1d.values.weight") ? taps
                                                           : std::size_t{1};
    return part_of_each(whole, rows, part, parts);
  }
  if (has("linear_proj.weight") || has("linear_fc2.weight")) {
    return part_of_each(whole, experts * hidden, part, parts);
  }
  if (has("linear_fc1")) return part_of_each(whole, experts, part, parts);
  if (has("linear_qkv")) return part_of_each(whole, 3, part, parts);
  if (has("linear_q_up_proj")) return part_of_each(whole, 1, part, parts);
  if (has("linear_kv_up_proj")) return part_of_each(whole, 2, part, parts);
  return whole;
}

/// Losses and the gradients of the first step agree with those of one rank on the whole batch, up
/// to the order in which partial sums are added. Counts the gradients that were compared.
inline void expect_results_of_one_rank(matrix::Cell cell) {
  cell.config.params_dtype = matrix::ParamsDtype::fp64;
  cell.config.attention_dropout = 0.0F;
  cell.config.hidden_dropout = 0.0F;
  const bool replicated = cell.config.data_parallel_size > 1;
  matrix::Cell whole = cell;
  whole.config.num_microbatches *= cell.config.data_parallel_size;
  whole.config.tensor_model_parallel_size = 1;
  whole.config.sequence_parallel = false;
  whole.config.expert_model_parallel_size = 1;
  whole.config.data_parallel_size = 1;
  whole.config.pipeline_model_parallel_size = 1;
  whole.config.virtual_pipeline_model_parallel_size.reset();
  const auto expected = run_ranks(whole, {}).at(0).bytes;
  const auto ranks = run_ranks(cell, {});
  std::size_t gradients = 0;
  std::size_t losses = 0;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    ASSERT_EQ(ranks[rank].record.error, "");
    for (const auto& [key, bytes] : ranks[rank].bytes) {
      const auto& [quantity, step, microbatch, layer, validation, tensor, times] = key;
      const bool loss = quantity == ObservedQuantity::loss && !replicated;
      if (step != 0 || (quantity != ObservedQuantity::main_grad && !loss)) continue;
      const std::vector<double> all =
          held_by(cell, static_cast<std::int32_t>(rank), tensor, doubles_of(expected.at(key)));
      const std::vector<double> own = doubles_of(bytes);
      ASSERT_EQ(own.size(), all.size()) << key_text(key);
      for (std::size_t i = 0; i < own.size(); ++i) {
        ASSERT_NEAR(own[i], all[i], 1e-12 * std::max(1.0, std::abs(all[i])))
            << key_text(key) << " rank " << rank << " element " << i;
      }
      ++(loss ? losses : gradients);
    }
  }
  EXPECT_GT(gradients, 0U);
  EXPECT_TRUE(losses > 0 || replicated);
}

/// An instrumented graph leg equals its eager leg on every rank, and breaks no rule of graphs.
inline std::vector<RankLeg> expect_graphs_equal_eager(const matrix::Cell& cell) {
  const auto expected = run_ranks(cell, {.instrumented = true});
  auto actual = run_ranks(cell, {.kind = LegKind::graph, .instrumented = true, .replay_seed = 5});
  for (std::size_t rank = 0; rank < actual.size(); ++rank) {
    const LegRecord& record = actual[rank].record;
    EXPECT_EQ(record.error, "");
    EXPECT_EQ(differences(expected[rank].bytes, actual[rank].bytes), std::vector<std::string>{});
    EXPECT_TRUE(record.edge_findings.empty());
    EXPECT_TRUE(record.address_findings.empty());
    EXPECT_FALSE(record.graphs.empty());
  }
  return actual;
}

/// How many nodes of the graphs of one rank run the op.
inline std::size_t nodes_that_run(const LegRecord& record, const std::string& op) {
  std::size_t count = 0;
  for (const GraphRecord& graph : record.graphs) {
    count += static_cast<std::size_t>(
        std::count_if(graph.nodes.begin(), graph.nodes.end(),
                      [&](const GraphNode& node) { return node.op_name == op; }));
  }
  return count;
}

}  // namespace cgconform::workloads::testing

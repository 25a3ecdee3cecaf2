#pragma once

#include <cstdint>
#include <string>

#include "matrix/platform_settings.hpp"
#include "matrix/training_config.hpp"

namespace cgconform::matrix {

/// The kind of model a cell trains; selects which `TrainingConfig` fields of the MoE family are
/// set.
enum class ModelKind : std::uint8_t { dense, moe_dropless, moe_drop_and_pad, hybrid_mamba };

enum class Optimizer : std::uint8_t { sgd, adam };

/// Layers that get graphs where layers are captured one by one; the others run eagerly. `odd`
/// counts from 0.
enum class GraphedLayers : std::uint8_t { all, first, last, odd };

/// How a training step is captured where it is not done as the frameworks do it. The first is for
/// every `cuda_graph_impl`; the others are forms of a captured iteration.
enum class CaptureForm : std::uint8_t {
  configured,   ///< as `cuda_graph_impl` and its scope say
  whole_step,   ///< forward, backward and optimizer in one graph, as captured by hand
  partitioned,  ///< several graphs, parted where the host reads a loss
  callables,    ///< one forward and one backward graph of all layers, warmed up on a side stream
};

/// What becomes of the last micro-batch of a step in which the data runs out.
enum class LastBatch : std::uint8_t {
  full,    ///< the data always suffices
  padded,  ///< it holds fewer sequences, and rows that do not count in their places
  eager,   ///< it holds fewer sequences, and what is captured for all of them runs eagerly
};

/// Sizes and lengths of the workload beyond the configuration.
struct WorkloadShape {
  std::int32_t vocab_size = 32;
  std::int32_t ffn_hidden_size = 32;
  std::int32_t steps = 4;          ///< training steps a leg runs
  std::int32_t eval_interval = 0;  ///< a validation step every so many steps; 0 for none
  std::int32_t eval_iters = 1;     ///< micro-batches of a validation step
  Optimizer optimizer = Optimizer::adam;
  /// Elements after which a bucket of gradients that are reduced over replicas is closed.
  std::int32_t bucket_size = 1024;
  GraphedLayers graphed_layers = GraphedLayers::all;  ///< what per-layer graphs cover
  std::int32_t image_tokens = 0;  ///< rows of every sequence that come from an image, before text
  CaptureForm capture_form = CaptureForm::configured;
  float clip_grad = 0.0F;  ///< largest global norm of the gradients of a step; 0: not clipped
  LastBatch last_batch = LastBatch::full;
  friend bool operator==(const WorkloadShape&, const WorkloadShape&) = default;
};

/// One point of the matrix. Plain data; the id is derived from the axes (see cell_name.hpp).
struct Cell {
  std::uint64_t index = 0;  ///< position in the matrix's own enumeration
  TrainingConfig config;
  WorkloadShape shape;
  ModelKind model_kind = ModelKind::dense;
  PlatformSettings platform;

  /// Ranks the gang needs: the product of the parallel sizes.
  int ranks() const {
    return config.tensor_model_parallel_size * config.pipeline_model_parallel_size *
           config.data_parallel_size;
  }
};

/// Id and hash of a cell: `impl=local/scope=attn/...` and 16 hexadecimal digits of XXH3-64 over it.
/// cell_name.hpp states what keeps them stable.
struct CellName {
  std::string id;
  std::string hash;
};

}  // namespace cgconform::matrix

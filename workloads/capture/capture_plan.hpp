#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "matrix/cell.hpp"

namespace cgconform::workloads {

/// Scope of the optimizer's executions in records.
constexpr std::string_view optimizer_scope = "optimizer";

/// Which implementation a cell's graph leg runs.
enum class CaptureKind : std::uint8_t {
  none,
  local,
  full_iteration,
  callable_pair,  ///< all layers as one forward and one backward graph
  transformer_engine
};

/// What a cell's configuration asks to be captured, decided before anything runs.
struct CapturePlan {
  CaptureKind kind = CaptureKind::none;
  std::string scope;  ///< as graph records name it: "layer", "attn,mlp", ...
  /// Scopes of the modules that are captured, by global layer index: all of a layer's or some of
  /// them. Empty for whole iterations.
  std::vector<std::vector<std::string>> captured_modules;
  std::int32_t warmup_steps = 0;
  bool separate_pools = false;
  bool optimizer_graph = false;     ///< the optimizer's step is a graph of its own
  std::int32_t training_steps = 0;  ///< steps a leg runs, see plan_capture

  bool captures_anything() const;
};

/// Derives the plan. A module scope of `local` selects layers by their kind: attn and mlp whole
/// dense ones, moe whole ones with experts, moe_router or moe_preprocess what comes before and
/// after the experts. Of `transformer_engine` it selects the modules of every layer. The empty
/// scope selects all there is. Of these, the layers that the cell's shape names. The steps are the
/// cell's own, raised where needed so that every graph is replayed at least twice after the step
/// that captured it, and the validation graph at least once. Throws Error for implementations and
/// models that are not built.
CapturePlan plan_capture(const matrix::Cell& cell);

}  // namespace cgconform::workloads

#pragma once

#include "matrix/constraint_facts.hpp"

namespace cgconform::matrix {

// Predicates of hazards that appear twice in the table: as a hole (what breaks) and as an
// ambiguity (how the verdict reads it).

/// Experts are dispatched inside the captured region with counts that only the host knows.
bool dispatch_syncs_in_capture(const Facts& f);
/// The configuration asks for the full iteration and turns graphs off.
bool full_iteration_without_impl(const Facts& f);
/// A module is recomputed inside a per-layer graph in 16 bits, where the checkpoint is skipped.
bool recompute_is_skipped(const Facts& f);
/// A module is recomputed through Transformer Engine's checkpoint inside a local graph.
bool local_checkpoint_in_low_precision(const Facts& f);
/// Full recompute inside the captured iteration with dropout on.
bool full_recompute_with_dropout(const Facts& f);
/// The scope of local selects another part than its name says, on layers that are not hybrid.
bool local_scope_selects_layer_types(const Facts& f);
/// The scope mlp of local without attn.
bool local_mlp_alone(const Facts& f);
/// Bridge is led to per-layer local graphs although it means to refuse them.
bool bridge_local_loophole(const Facts& f);

}  // namespace cgconform::matrix

#pragma once

#include <string>
#include <vector>

#include "matrix/constraint_engine.hpp"
#include "matrix/platform_settings.hpp"
#include "matrix/training_config.hpp"

namespace cgconform::matrix {

/// One changed field, variable or version, as JSON text before and after.
struct Change {
  std::string name;
  std::string from;
  std::string to;
};

/// A set of changes that makes a configuration legal, and what it costs the user: changes that
/// keep the model and the graphs cost least.
struct Repair {
  std::vector<Change> changes;
  int cost = 0;
};

/// The smallest repairs, best first, at most `limit`. Empty where the configuration is legal, or
/// where no repair is found within a fixed number of evaluations.
std::vector<Repair> suggest_repairs(Ruleset ruleset, Layers layers, const TrainingConfig& config,
                                    const PlatformSettings& platform, std::size_t limit = 3);

/// One rung of the ladder of scopes that the documents recommend for a kind of model.
struct ScopeRung {
  CudaGraphImpl impl = CudaGraphImpl::none;
  CudaGraphScope scope;
  std::vector<RuleIndex> violations;  ///< empty where the rung is legal
};

/// The ladder for this model, recompute and allocator, narrowest first: attn, then mlp for dense
/// layers; attn, moe_router and moe_preprocess for dropless experts, or moe with drop-and-pad
/// routing; the full iteration last. The RNG trackers are taken as set.
std::vector<ScopeRung> scope_ladder(Ruleset ruleset, Layers layers, const TrainingConfig& config,
                                    const PlatformSettings& platform);

}  // namespace cgconform::matrix

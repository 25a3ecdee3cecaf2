#pragma once

#include <span>
#include <string>

#include "matrix/classification.hpp"
#include "suites/check.hpp"
#include "suites/rank_vote.hpp"

/// The truth tables of the constraint checks, each written out from the statement of its check and
/// without the rule table: what must be refused, by which rule, and which neighbours are admitted.
namespace cgconform::suites::checks {

CheckResult judge_preprocess_with_router(ScenarioContext& context);       ///< CON-03
CheckResult judge_moe_scopes_need_experts(ScenarioContext& context);      ///< CON-04
CheckResult judge_mlp_scope_needs_dense_layer(ScenarioContext& context);  ///< CON-05
CheckResult judge_moe_scope_needs_padding(ScenarioContext& context);      ///< CON-06
CheckResult judge_preprocess_stays_on_device(ScenarioContext& context);   ///< CON-07

CheckResult judge_moe_recompute_with_router(ScenarioContext& context);     ///< CON-09
CheckResult judge_attention_dropout_recomputed(ScenarioContext& context);  ///< CON-10
CheckResult judge_hidden_dropout_recomputed(ScenarioContext& context);     ///< CON-11
CheckResult judge_router_jitter_recomputed(ScenarioContext& context);      ///< CON-12

CheckResult judge_expandable_segments(ScenarioContext& context);            ///< CON-13
CheckResult judge_offloading(ScenarioContext& context);                     ///< CON-15
CheckResult judge_overlap_and_delayed_gradients(ScenarioContext& context);  ///< CON-16

CheckResult judge_spellings(ScenarioContext& context);                  ///< CON-19
CheckResult judge_scopes_without_graphs(ScenarioContext& context);      ///< CON-18
CheckResult judge_same_verdict_on_all_ranks(ScenarioContext& context);  ///< CON-21

/// CON-18 with what becomes of each cell seen through `look`.
using LookAtCell = matrix::Classification (*)(const matrix::Classification& found);
CheckResult judge_scopes_without_graphs_through(LookAtCell look);

/// CON-21 with another vote.
using RankVote = std::optional<OddRank> (*)(std::span<const std::string> answers);
CheckResult judge_same_verdict_by(RankVote vote, const ScenarioContext& context);

}  // namespace cgconform::suites::checks

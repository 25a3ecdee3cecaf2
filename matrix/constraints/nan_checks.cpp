#include "matrix/constraint_table.hpp"

namespace cgconform::matrix {

namespace {

using G = Gate;
constexpr Subject subject = Subject::nan_checks;
constexpr std::string_view nan_consequence =
    "the check reads a value on the host inside the capture, which fails the capture";

constexpr Rule rows[] = {
    {.id = "full-iter-nan-check",
     .subject = subject,
     .rulesets = seeds,
     .layer = Layer::bridge,
     .statement = "full_iteration needs check_for_nan_in_loss (or check_for_nan_in_loss_and_grad) "
                  "to be false",
     .message = "the NaN check of the loss is on while the whole iteration is captured",
     .remedy = "set check_for_nan_in_loss to false (--no-check-for-nan-in-loss-and-grad)",
     .consequence = nan_consequence,
     .source = "BCF:1508-1513, AR:1235-1237",
     .fields = {"cuda_graph_impl", "cuda_graph_scope", "check_for_nan_in_loss",
                "check_for_nan_in_loss_and_grad"},
     .when = {G::full_iteration},
     .broken =
         [](const Facts& f) {
           return f.config.check_for_nan_in_loss && f.config.check_for_nan_in_loss_and_grad;
         }},
    {.id = "full-iter-nan-check",
     .subject = subject,
     .rulesets = {Ruleset::megatron_lm_0_20},
     .layer = Layer::args,
     .statement = "full_iteration needs check_for_nan_in_loss_and_grad to be false",
     .message = "the NaN check is on while the whole iteration is captured",
     .remedy = "pass --no-check-for-nan-in-loss-and-grad",
     .consequence = nan_consequence,
     .source = "AR:1235-1237",
     .fields = {"cuda_graph_impl", "cuda_graph_scope", "check_for_nan_in_loss_and_grad"},
     .when = {G::full_iteration},
     .broken =
         [](const Facts& f) {
           // Dynamic loss scaling of fp16 has turned the check off already (AR:1198-1203).
           const bool dynamic_scaling = f.config.fp16 && !f.config.loss_scale;
           return f.config.check_for_nan_in_loss_and_grad && !dynamic_scaling;
         }},
    {.id = "full-iter-nan-check",
     .subject = subject,
     .rulesets = {Ruleset::bridge_0_6},
     .layer = Layer::bridge,
     .statement = "full_iteration needs rerun_state_machine.check_for_nan_in_loss to be false",
     .message = "the NaN check of the loss is on while the whole iteration is captured",
     .remedy = "set rerun_state_machine.check_for_nan_in_loss to false",
     .consequence = nan_consequence,
     .source = "BCF:1508-1513",
     .fields = {"cuda_graph_impl", "cuda_graph_scope", "check_for_nan_in_loss"},
     .when = {G::full_iteration},
     .broken = [](const Facts& f) { return f.config.check_for_nan_in_loss; }},
    {.id = "te-ce-full-iter-2.7",
     .subject = subject,
     .rulesets = head,
     .layer = Layer::build,
     .statement = "full_iteration with cross_entropy_fusion_impl te needs Transformer Engine 2.7.0",
     .message = "the fused cross entropy of Transformer Engine is captured with the iteration",
     .remedy = "use Transformer Engine 2.7.0 or later, or cross_entropy_fusion_impl native",
     .consequence = "the first loss stops with an assertion",
     .source = "LM:176-190",
     .fields = {"cuda_graph_impl", "cross_entropy_fusion_impl"},
     .when = {G::full_iteration},
     .broken =
         [](const Facts& f) {
           return f.config.cross_entropy_fusion_impl == CrossEntropyFusionImpl::te;
         },
     .library = Library::transformer_engine,
     .at_least = {2, 7, 0}},
};

}  // namespace

std::span<const Rule> nan_check_rules() {
  return rows;
}

}  // namespace cgconform::matrix

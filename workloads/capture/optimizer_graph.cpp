#include "workloads/capture/optimizer_graph.hpp"

#include "workloads/ops/optimizer.hpp"

namespace cgconform::workloads {

OptimizerGraph::OptimizerGraph(LegContext& context, StageOptimizer& optimizer, LayerBody& body,
                               GraphKeeper& keeper)
    : context_(context),
      optimizer_(optimizer),
      body_(body),
      keeper_(keeper),
      captures_(context.request.kind == LegKind::graph && context.plan.optimizer_graph),
      copies_inside_(captures_ && context.fault(Fault::f11e_host_chosen_copy_source)),
      scalars_(optimizer.scalars()) {}

void OptimizerGraph::step(std::int32_t step, const CaptureImplementation& implementation) {
  Stream& stream = context_.stream();
  optimizer_.stage_learning_rate(stream, step);
  if (!copies_inside_) optimizer_.take_learning_rate(stream, step);
  if (!captures_) {
    optimizer_.step(stream);
    return;
  }
  const ExecutionRecord execution{.step = step, .scope = std::string(optimizer_scope)};
  if (calls_++ == context_.plan.warmup_steps) capture(step, implementation);
  if (graph_.exec) {
    keeper_.replay(graph_, execution, [&] { run(step); });
    return;
  }
  context_.clock.enter(Phase::warmup);
  eager_launches_ = keeper_.run_eagerly(execution, [&] { run(step); });
}

void OptimizerGraph::prepare(std::int32_t step) {
  optimizer_.stage_learning_rate(context_.stream(), step);
  optimizer_.take_learning_rate(context_.stream(), step);
  const bool captures = context_.request.kind == LegKind::graph;
  if (captures && calls_++ == context_.plan.warmup_steps) choose_scalars();
}

void OptimizerGraph::run_in_body() {
  optimizer_.step_with(context_.stream(), scalars_);
}

void OptimizerGraph::run(std::int32_t step) {
  body_.count_host_execution();
  if (copies_inside_) optimizer_.take_learning_rate(context_.stream(), step);
  optimizer_.step_with(context_.stream(), scalars_);
}

void OptimizerGraph::capture(std::int32_t step, const CaptureImplementation& implementation) {
  const PoolId shared = implementation.iteration_pool();
  const PoolId pool = shared != default_pool ? shared : keeper_.create_pool("graph optimizer");
  choose_scalars();
  keeper_.ledger().open_captures(pool);
  const CaptureRequest request{.name = std::string(optimizer_scope),
                               .scope = optimizer_scope,
                               .step = step,
                               .mode = CaptureMode::global,
                               .pool = pool,
                               .eager_body_launches = eager_launches_};
  const std::uint64_t hash_before = keeper_.hash_guarded();
  keeper_.capture(graph_, request, hash_before, [&] { run(step); });
  keeper_.enter(graph_, {});
  keeper_.ledger().close_captures();
}

TensorView OptimizerGraph::frozen(const TensorView& scalar, Buffer& holder) {
  holder = Buffer(context_.allocator(), context_.stream(), default_pool, scalar.dtype, scalar.shape,
                  "value at capture");
  context_.stream().copy(holder.view(), scalar, "value at capture");
  return holder.view();
}

void OptimizerGraph::choose_scalars() {
  if (context_.fault(Fault::f11a_learning_rate_by_value)) {
    scalars_.learning_rate = frozen(scalars_.learning_rate, frozen_learning_rate_);
  }
  if (context_.fault(Fault::f11b_bias_correction_by_value) && scalars_.step.valid()) {
    scalars_.step = frozen(scalars_.step, frozen_step_);
    advance_step(context_.stream(), scalars_.step, {}, "step at capture");
  }
  if (context_.fault(Fault::f11g_clip_factor_by_value) && scalars_.clip_factor.valid()) {
    scalars_.clip_factor = frozen(scalars_.clip_factor, frozen_clip_factor_);
  }
}

}  // namespace cgconform::workloads

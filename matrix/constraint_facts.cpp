#include "matrix/constraint_facts.hpp"

namespace cgconform::matrix {

namespace {

constexpr std::uint32_t bit_if(bool set, Gate gate) {
  return set ? 1U << static_cast<unsigned>(gate) : 0U;
}

}  // namespace

Gates Facts::gates() const {
  const bool iteration = full_iteration();
  const bool layers = graphs() && !iteration;
  return Gates::from_bits(
      bit_if(graphs(), Gate::graphs) | bit_if(is(Impl::local), Gate::local) |
      bit_if(is(Impl::local) && layers, Gate::local_per_layer) | bit_if(te(), Gate::te) |
      bit_if(layers, Gate::per_layer) | bit_if(iteration, Gate::full_iteration) |
      bit_if(layers && config.cuda_graph_scope.empty(), Gate::whole_layer) |
      bit_if(moe_model(), Gate::moe_model) | bit_if(selective(), Gate::selective) |
      bit_if(full_recompute(), Gate::full_recompute) |
      bit_if(config.cpu_offloading, Gate::cpu_offloading) |
      bit_if(config.fine_grained_activation_offloading, Gate::fgao) |
      bit_if(config.overlap_moe_expert_parallel_comm, Gate::ep_overlap) |
      bit_if(config.delay_wgrad_compute, Gate::delay_wgrad) |
      bit_if(low_precision(), Gate::low_precision) |
      bit_if(config.virtual_pipeline_model_parallel_size.has_value(), Gate::virtual_pipeline) |
      bit_if(config.sequence_packing != SequencePacking::none, Gate::packing) |
      bit_if(platform.expandable_segments || platform.expandable_segments_as_tested,
             Gate::expandable_segments) |
      bit_if(written.origin == ConfigOrigin::performance_overrides, Gate::performance_overrides));
}

}  // namespace cgconform::matrix

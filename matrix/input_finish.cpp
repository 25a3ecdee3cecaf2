#include "matrix/input_finish.hpp"

#include "matrix/enum_names.hpp"

namespace cgconform::matrix {

namespace {

bool is_given(const CheckInput& input, std::string_view field) {
  return input.given.test(static_cast<std::size_t>(require_field(field)));
}

}  // namespace

TrainingConfig framework_defaults(Ruleset ruleset) {
  TrainingConfig config;
  config.num_microbatches = 0;
  config.cuda_graph_impl_given = false;
  if (ruleset == Ruleset::megatron_lm_0_20) {
    // An option there; the other frameworks' recipes turn it on.
    config.overlap_grad_reduce = false;
  }
  return config;
}

void note_scope_order(ScopeOrder& order, const FieldValue& value) {
  order.size = 0;
  for (const FieldScalar& item : value.items) {
    const EnumName<CudaGraphModule>* module = find_enum<CudaGraphModule>(item.text);
    bool known = module == nullptr;
    for (std::uint8_t i = 0; i < order.size && !known; ++i) {
      known = order.items[i] == module->value;
    }
    if (!known && order.size < order.items.size()) order.items[order.size++] = module->value;
  }
}

void finish_input(CheckInput& input) {
  static const auto impl_field = static_cast<std::size_t>(require_field("cuda_graph_impl"));
  TrainingConfig& config = input.config;
  config.cuda_graph_impl_given = input.given.test(impl_field);
  if (config.global_batch_size && config.num_microbatches == 0 &&
      is_given(input, "data_parallel_size") && is_given(input, "micro_batch_size")) {
    const std::int64_t samples =
        std::int64_t{config.micro_batch_size} * std::int64_t{config.data_parallel_size};
    if (samples > 0 && *config.global_batch_size % samples == 0) {
      config.num_microbatches = static_cast<std::int32_t>(*config.global_batch_size / samples);
    }
  }
}

}  // namespace cgconform::matrix

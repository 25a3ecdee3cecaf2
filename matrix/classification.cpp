#include "matrix/classification.hpp"

#include <fmt/format.h>

#include "matrix/expansion.hpp"

namespace cgconform::matrix {

std::string_view skip_name(SkipReason reason) {
  switch (reason) {
    case SkipReason::none:
      return "none";
    case SkipReason::duplicate:
      return "duplicate";
    case SkipReason::no_device_effect:
      return "no effect on this device";
    case SkipReason::captures_nothing:
      return "captures nothing";
    case SkipReason::not_built:
      return "not built yet";
    case SkipReason::over_rank_limit:
      return "over the matrix's rank limit";
    case SkipReason::too_few_ranks:
      return "too few ranks";
    case SkipReason::shared_gpu:
      return "needs a GPU for each rank";
  }
  return "none";
}

std::string skip_text(const Classification& classification, const Expansion& expansion,
                      TargetDevice device) {
  switch (classification.skip) {
    case SkipReason::none:
      return {};
    case SkipReason::duplicate:
      return fmt::format("duplicate of {}", expansion.name(classification.same_as).id);
    case SkipReason::no_device_effect:
      return fmt::format("no effect on device {}: same as {}", device_name(device),
                         expansion.name(classification.same_as).id);
    case SkipReason::captures_nothing:
      return "captures nothing: the model has no layer in this scope";
    case SkipReason::not_built:
      return fmt::format("not built yet: {}", classification.feature->name);
    case SkipReason::over_rank_limit:
      return fmt::format("over the matrix's rank limit: needs {}, allows {}",
                         classification.ranks_needed, classification.ranks_allowed);
    case SkipReason::too_few_ranks:
      return fmt::format("too few ranks: needs {}, have {}", classification.ranks_needed,
                         classification.ranks_allowed);
    case SkipReason::shared_gpu:
      return "needs a GPU for each rank: NCCL registers no buffers where ranks share one";
  }
  return {};
}

Classification classify_ranks(const Cell& cell, std::int32_t ranks) {
  Classification result;
  result.kind =
      cell.config.cuda_graph_impl == CudaGraphImpl::none ? CellKind::baseline : CellKind::graph;
  result.ranks_needed = cell.ranks();
  result.ranks_allowed = ranks;
  if (result.ranks_needed > ranks) {
    result.status = CellStatus::skipped;
    result.skip = SkipReason::too_few_ranks;
  }
  return result;
}

}  // namespace cgconform::matrix

#include "workloads/training/parallel_groups.hpp"

#include <algorithm>
#include <utility>

#include "matrix/virtual_stages.hpp"

namespace cgconform::workloads {

ParallelGroups::ParallelGroups(const matrix::Cell& cell, Communicator* gang) {
  if (gang == nullptr) return;
  stage_ = matrix::pipeline_stage_of(cell, gang->rank());
  replica_ = matrix::replica_of(cell, gang->rank());
  const bool replicated = cell.config.data_parallel_size > 1;
  if (cell.config.pipeline_model_parallel_size > 1) {
    pipeline_ = replicated ? keep(gang->split(replica_, "pipeline")) : gang;
    const bool interleaved = matrix::chunks_a_stage(cell) > 1;
    pipeline_gradients_ =
        interleaved ? keep(gang->split(replica_, "pipeline gradients")) : pipeline_;
  }
  if (replicated) replicas_ = keep(gang->split(stage_, "replicas"));
}

std::vector<const Communicator*> ParallelGroups::all() const {
  std::vector<const Communicator*> groups;
  for (const Communicator* group : {pipeline_, pipeline_gradients_, replicas_}) {
    const bool known = std::find(groups.begin(), groups.end(), group) != groups.end();
    if (group != nullptr && !known) groups.push_back(group);
  }
  return groups;
}

Communicator* ParallelGroups::keep(std::unique_ptr<Communicator> made) {
  return made_.emplace_back(std::move(made)).get();
}

}  // namespace cgconform::workloads

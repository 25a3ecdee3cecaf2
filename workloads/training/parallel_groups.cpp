#include "workloads/training/parallel_groups.hpp"

#include <algorithm>
#include <utility>

#include "matrix/virtual_stages.hpp"

namespace cgconform::workloads {

ParallelGroups::ParallelGroups(const matrix::Cell& cell, Communicator* gang) {
  if (gang == nullptr) return;
  stage_ = matrix::pipeline_stage_of(cell, gang->rank());
  replica_ = matrix::replica_of(cell, gang->rank());
  tensor_rank_ = matrix::tensor_rank_of(cell, gang->rank());
  const std::int32_t parts = cell.config.tensor_model_parallel_size;
  const std::int32_t replicas = cell.config.data_parallel_size;
  if (cell.config.pipeline_model_parallel_size > 1) {
    const int of_stage = replica_ * parts + tensor_rank_;
    const bool whole_gang = parts == 1 && replicas == 1;
    pipeline_ = whole_gang ? gang : keep(gang->split(of_stage, "pipeline"));
    const bool interleaved = matrix::chunks_a_stage(cell) > 1;
    pipeline_gradients_ =
        interleaved ? keep(gang->split(of_stage, "pipeline gradients")) : pipeline_;
  }
  if (replicas > 1) replicas_ = keep(gang->split(stage_ * parts + tensor_rank_, "replicas"));
  if (parts > 1) tensor_ = keep(gang->split(stage_ * replicas + replica_, "tensor parallel"));
  if (cell.config.fp8 != matrix::Fp8Format::none) join_scaling(cell, *gang);
  spread_experts(cell, *gang);
}

void ParallelGroups::join_scaling(const matrix::Cell& cell, Communicator& gang) {
  if (replicas_ == nullptr || cell.config.tp_only_amax_red) {
    amax_ = tensor_;
  } else if (tensor_ == nullptr) {
    amax_ = replicas_;
  } else {
    amax_ = pipeline_ == nullptr ? &gang : keep(gang.split(stage_, "stage"));
  }
}

void ParallelGroups::spread_experts(const matrix::Cell& cell, Communicator& gang) {
  const std::int32_t ranks = cell.config.expert_model_parallel_size;
  if (ranks == 1) {
    expert_replicas_ = replicas_;
    return;
  }
  const std::int32_t place = stage_ * cell.config.tensor_model_parallel_size + tensor_rank_;
  const std::int32_t groups = cell.config.data_parallel_size / ranks;
  expert_ = keep(gang.split(place * groups + replica_ / ranks, "expert parallel"));
  if (groups > 1) {
    expert_replicas_ = keep(gang.split(place * ranks + replica_ % ranks, "expert replicas"));
  }
}

std::vector<Communicator*> ParallelGroups::all() const {
  std::vector<Communicator*> groups;
  for (Communicator* group :
       {pipeline_, pipeline_gradients_, replicas_, tensor_, expert_, expert_replicas_, amax_}) {
    const bool known = std::find(groups.begin(), groups.end(), group) != groups.end();
    if (group != nullptr && !known) groups.push_back(group);
  }
  return groups;
}

std::vector<Communicator*> ParallelGroups::of_layers() const {
  std::vector<Communicator*> groups;
  for (Communicator* group : {tensor_, expert_}) {
    if (group != nullptr) groups.push_back(group);
  }
  return groups;
}

Communicator* ParallelGroups::keep(std::unique_ptr<Communicator> made) {
  return made_.emplace_back(std::move(made)).get();
}

}  // namespace cgconform::workloads

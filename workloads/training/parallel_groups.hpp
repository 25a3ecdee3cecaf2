#pragma once

#include <memory>
#include <vector>

#include "matrix/cell.hpp"
#include "workloads/device/communicator.hpp"
#include "workloads/training/gradient_reduction.hpp"

namespace cgconform::workloads {

/// The groups of ranks that a cell's parallel layout makes of its gang, as one rank sees them. They
/// are split from the gang's communicator, so all its ranks make them together; graphs that use
/// them have to be destroyed before.
class ParallelGroups {
 public:
  /// `gang` is null where the cell has one rank.
  ParallelGroups(const matrix::Cell& cell, Communicator* gang);

  int stage() const { return stage_; }
  int replica() const { return replica_; }
  int tensor_rank() const { return tensor_rank_; }

  /// The stages that this rank's micro-batches pass through, in order; null where there is one.
  Communicator* pipeline() const { return pipeline_; }
  /// The same ranks, for gradients: a communicator of its own where chunks are interleaved.
  Communicator* pipeline_gradients() const { return pipeline_gradients_; }
  /// The ranks that hold the same parameters; null where there is one.
  Communicator* replicas() const { return replicas_; }
  /// The ranks that hold the parts of this rank's layers; null where it holds them whole.
  Communicator* tensor() const { return tensor_; }
  /// The ranks that the experts of this rank's layers are spread over: neighbours among the
  /// replicas; null where it holds them all.
  Communicator* expert() const { return expert_; }
  /// The ranks that hold the same experts; null where there is one.
  Communicator* expert_replicas() const { return expert_replicas_; }
  /// The ranks that decide on scales of 8-bit layers together: all of the stage, or with
  /// `tp_only_amax_red` those of `tensor`; null where there is one.
  Communicator* amax() const { return amax_; }
  /// Those that gradients are summed over.
  ReplicaGroups of_gradients() const { return {replicas_, expert_replicas_, tensor_}; }
  /// Each communicator of the above once.
  std::vector<Communicator*> all() const;
  /// Those whose ranks run one layer together.
  std::vector<Communicator*> of_layers() const;

 private:
  Communicator* keep(std::unique_ptr<Communicator> made);
  void join_scaling(const matrix::Cell& cell, Communicator& gang);
  void spread_experts(const matrix::Cell& cell, Communicator& gang);

  int stage_ = 0;
  int replica_ = 0;
  int tensor_rank_ = 0;
  std::vector<std::unique_ptr<Communicator>> made_;
  Communicator* pipeline_ = nullptr;
  Communicator* pipeline_gradients_ = nullptr;
  Communicator* replicas_ = nullptr;
  Communicator* tensor_ = nullptr;
  Communicator* expert_ = nullptr;
  Communicator* expert_replicas_ = nullptr;
  Communicator* amax_ = nullptr;
};

}  // namespace cgconform::workloads

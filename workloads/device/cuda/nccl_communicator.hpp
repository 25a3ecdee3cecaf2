#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "workloads/device/communicator.hpp"
#include "workloads/device/cuda/cuda_handles.hpp"
#include "workloads/device/cuda/cuda_state.hpp"

namespace cgconform::workloads::cuda {

/// An NCCL communicator. The handle lives as long as the last captured graph that uses it; a
/// communicator with an asynchronous error is aborted instead of destroyed.
class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(std::shared_ptr<CudaState> state, CommunicatorOptions options);
  ~NcclCommunicator() override;
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  int rank() const override { return options_.rank; }
  int size() const override { return options_.size; }
  const std::string& name() const override { return options_.name; }
  void send(const TensorView& tensor, int peer, Stream& stream, std::string label) override;
  void receive(const TensorView& tensor, int peer, Stream& stream, std::string label) override;
  void all_reduce(const TensorView& destination, const TensorView& source, ReduceOp op,
                  Stream& stream, std::string label) override;
  void broadcast(const TensorView& tensor, int root, Stream& stream, std::string label) override;
  void all_gather(const TensorView& destination, const TensorView& source, Stream& stream,
                  std::string label) override;
  void reduce_scatter(const TensorView& destination, const TensorView& source, Stream& stream,
                      std::string label) override;
  std::vector<std::string> exchange(const std::string& mine) override;
  std::unique_ptr<Communicator> split(int color, const std::string& name) override;
  /// A communicator of this one's ranks that shares nothing with it; all call it together.
  std::unique_ptr<NcclCommunicator> copy(CommunicatorOptions options);
  ErrorCategory async_error() const override;
  int live_graph_references() const override;
  void close() override;
  void end(CommunicatorEnd how) override;

 private:
  class Handle;

  NcclCommunicator(std::shared_ptr<CudaState> state, CommunicatorOptions options,
                   std::shared_ptr<Handle> handle);

  /// Runs an NCCL call on the stream; captured nodes are recorded with `operands`. `peer` is the
  /// other rank of a message, -1 for collectives.
  template <typename Call>
  void enqueue(std::string_view name, int peer, std::vector<Operand> operands, Stream& stream,
               const std::string& label, Call&& call);

  std::shared_ptr<CudaState> state_;
  CommunicatorOptions options_;
  std::shared_ptr<Handle> handle_;
  std::uint64_t exchanges_ = 0;
  int splits_ = 0;
  /// Parts made before, by what was asked for: to make one takes NCCL long, and legs ask for the
  /// same ones again and again.
  std::map<std::string, std::shared_ptr<Handle>> parts_;
};

}  // namespace cgconform::workloads::cuda

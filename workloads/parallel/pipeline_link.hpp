#pragma once

#include <string>

#include "workloads/device/communicator.hpp"
#include "workloads/device/stream.hpp"

namespace cgconform::workloads {

/// A stage's connection to its neighbours in the pipeline: rank r of a communicator is stage r, and
/// the first follows the last. Combined transfers order their halves by the parity of the stage, so
/// that a neighbour's send always meets a receive.
class PipelineLink {
 public:
  /// Activations travel on one communicator and gradients on the other, which may be the same. Both
  /// are null where there is one stage.
  PipelineLink(Communicator* activations, Communicator* gradients, Stream& stream)
      : activations_(activations), gradients_(gradients), stream_(stream) {}

  int stage() const { return activations_ == nullptr ? 0 : activations_->rank(); }
  int stages() const { return activations_ == nullptr ? 1 : activations_->size(); }

  void send_to_next(const TensorView& tensor, std::string label);
  void send_to_previous(const TensorView& tensor, std::string label);
  void receive_from_next(const TensorView& tensor, std::string label);
  void receive_from_previous(const TensorView& tensor, std::string label);

  /// Sends an output on and receives the gradient of another micro-batch's.
  void exchange_with_next(const TensorView& sent, const TensorView& received, std::string label);
  /// Sends a gradient back and receives the next input.
  void exchange_with_previous(const TensorView& sent, const TensorView& received,
                              std::string label);

 private:
  bool sends_first() const { return stage() % 2 == 0; }
  int next() const { return (stage() + 1) % stages(); }
  int previous() const { return (stage() + stages() - 1) % stages(); }

  Communicator* activations_;
  Communicator* gradients_;
  Stream& stream_;
};

}  // namespace cgconform::workloads

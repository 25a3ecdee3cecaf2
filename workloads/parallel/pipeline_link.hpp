#pragma once

#include <string>

#include "workloads/device/communicator.hpp"
#include "workloads/device/stream.hpp"

namespace cgconform::workloads {

/// A stage's connection to its neighbours in the pipeline: rank r of the communicator is stage r.
/// Combined transfers order their halves by the parity of the stage, so that a neighbour's send
/// always meets a receive.
class PipelineLink {
 public:
  /// `communicator` may be null where there is one stage.
  PipelineLink(Communicator* communicator, Stream& stream)
      : communicator_(communicator), stream_(stream) {}

  int stage() const { return communicator_ == nullptr ? 0 : communicator_->rank(); }
  int stages() const { return communicator_ == nullptr ? 1 : communicator_->size(); }

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

  Communicator* communicator_;
  Stream& stream_;
};

}  // namespace cgconform::workloads

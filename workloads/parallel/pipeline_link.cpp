#include "workloads/parallel/pipeline_link.hpp"

#include <utility>

namespace cgconform::workloads {

void PipelineLink::send_to_next(const TensorView& tensor, std::string label) {
  activations_->send(tensor, next(), stream_, std::move(label));
}

void PipelineLink::send_to_previous(const TensorView& tensor, std::string label) {
  gradients_->send(tensor, previous(), stream_, std::move(label));
}

void PipelineLink::receive_from_next(const TensorView& tensor, std::string label) {
  gradients_->receive(tensor, next(), stream_, std::move(label));
}

void PipelineLink::receive_from_previous(const TensorView& tensor, std::string label) {
  activations_->receive(tensor, previous(), stream_, std::move(label));
}

void PipelineLink::exchange_with_next(const TensorView& sent, const TensorView& received,
                                      std::string label) {
  if (sends_first()) {
    send_to_next(sent, label);
    receive_from_next(received, std::move(label));
  } else {
    receive_from_next(received, label);
    send_to_next(sent, std::move(label));
  }
}

void PipelineLink::exchange_with_previous(const TensorView& sent, const TensorView& received,
                                          std::string label) {
  if (sends_first()) {
    send_to_previous(sent, label);
    receive_from_previous(received, std::move(label));
  } else {
    receive_from_previous(received, label);
    send_to_previous(sent, std::move(label));
  }
}

}  // namespace cgconform::workloads

#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "workloads/capture/capture_implementation.hpp"

namespace cgconform::workloads {

/// One forward and one backward graph of a layer, or of some of its modules, with the memory they
/// own.
class LocalRunner {
 public:
  LocalRunner(LegContext& context, LayerBody& body, GraphKeeper& keeper, const LayerCall& call);

  std::int32_t layer() const { return first_call_.layer; }
  std::int32_t piece() const { return first_call_.piece; }
  std::int32_t microbatch() const { return first_call_.microbatch; }

  // While the first schedule call is recorded.
  bool busy() const { return busy_; }
  void set_busy(bool busy) { busy_ = busy; }
  /// Enters the runner into the record; true the first time.
  bool record_forward() { return !std::exchange(forward_recorded_, true); }
  bool record_backward() { return !std::exchange(backward_recorded_, true); }
  /// What a recorded call was given, and which runner's output that was (null: none).
  void see_input(const TensorView& input, LocalRunner* producer);
  void see_grad_output(const TensorView& grad_output, LocalRunner* producer);
  void see_launches(bool forward, std::uint64_t launches);

  // Creation, in the recorded order.
  void capture_forward(PoolId pool);
  void capture_backward(PoolId pool);

  // Replay. Refuses a forward before the last one's backward and a backward before its forward,
  // and inputs that differ in shape or type from those captured.
  TensorView forward(const LayerCall& call, const TensorView& input);
  TensorView backward(const LayerCall& call, const TensorView& grad_output);
  /// Takes two forwards before a backward (F04a).
  void accept_overlap() { refuses_overlap_ = false; }

  void destroy_graphs();
  /// Gives back what the graphs used.
  void release_memory();

 private:
  /// A slot a graph reads: its own memory, or the output of another runner.
  struct Input {
    TensorView seen;  ///< shape and type at record time
    LocalRunner* producer = nullptr;
    bool recorded = false;
    Buffer own;
    TensorView slot;
  };
  void see(Input& target, const TensorView& input, LocalRunner* producer);
  void prepare(Input& target, const TensorView& produced, PoolId pool, const char* label);
  void refresh(const Input& target, const TensorView& given, const LayerCall& call,
               const char* tensor);
  void warm_up(const LayerCall& call);
  /// One eager forward and backward inside the graphs' creation; `between` is called before, after
  /// the forward, and after the backward.
  void run_extra(const LayerCall& call, const BodyMode& mode, const std::function<void()>& between);
  /// Counts what a capture must show, where the recorded eager call recomputed and a capture does
  /// not.
  void measure(const LayerCall& call);
  CaptureRequest request(bool forward, PoolId pool) const;

  LegContext& context_;
  LayerBody& body_;
  GraphKeeper& keeper_;
  LayerCall first_call_;
  bool busy_ = false;
  bool refuses_overlap_ = true;
  bool forward_recorded_ = false;
  bool backward_recorded_ = false;
  bool output_read_by_runner_ = false;
  bool grad_input_read_by_runner_ = false;
  std::uint64_t forward_launches_ = 0;
  std::uint64_t backward_launches_ = 0;
  std::uint64_t replays_ = 0;

  Input input_;
  Input grad_output_;
  SavedActivations saved_;
  SavedActivations eager_saved_;  ///< of a forward that sabotage ran eagerly
  Buffer output_;
  Buffer grad_input_;
  TensorView output_view_;
  TensorView grad_input_view_;
  CapturedGraph forward_graph_;
  CapturedGraph backward_graph_;
};

}  // namespace cgconform::workloads

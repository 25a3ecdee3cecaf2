#include <algorithm>
#include <deque>
#include <map>
#include <tuple>

#include <fmt/format.h>

#include "matrix/error.hpp"
#include "workloads/capture/capture_implementation.hpp"
#include "workloads/capture/coverage_faults.hpp"
#include "workloads/capture/deferred_gradients.hpp"
#include "workloads/capture/eager_layers.hpp"
#include "workloads/capture/layer_pieces.hpp"
#include "workloads/capture/local_runner.hpp"

namespace cgconform::workloads {
namespace {

/// `local` per layer, as the CudaGraphManager does it: the first training schedule call runs
/// eagerly and records the order of forwards and backwards; when it ends, the graphs are captured
/// in that order; later calls replay them. Validation always runs eagerly.
class LocalCapture final : public CaptureImplementation {
 public:
  LocalCapture(LegContext& context, LayerBody& body, GraphKeeper& keeper)
      : context_(context),
        body_(body),
        keeper_(keeper),
        layers_(body),
        deferred_(context),
        coverage_(context),
        runner_a_microbatch_(context.cell.config.pipeline_model_parallel_size > 1 &&
                             !context.fault(Fault::f04a_shared_output_slot)) {}

  void run_iteration(const IterationCall& call, const IterationBody& body) override {
    context_.agree_on_launch({.name = launch_name(call)});
    body(BodyMode{});
  }

  TensorView forward(const LayerCall& call, const TensorView& input) override {
    if (!replays(call) && !records(call)) return forward_eagerly(call, input, nullptr);
    TensorView value = input;
    for (const LayerPiece& piece : pieces(call)) {
      const LayerCall part = piece.call(call);
      if (!piece.captured) {
        value = forward_eagerly(part, value, nullptr);
      } else if (replays(call)) {
        value = next_runner(part).forward(part, value);
      } else {
        value = forward_eagerly(part, value, &record_forward(part, value));
      }
    }
    return value;
  }

  TensorView backward(const LayerCall& call, const TensorView& grad_output) override {
    if (!replays(call) && !records(call)) return backward_eagerly(call, grad_output, nullptr);
    TensorView grad = grad_output;
    const std::vector<LayerPiece>& all = pieces(call);
    for (auto piece = all.rbegin(); piece != all.rend(); ++piece) {
      const LayerCall part = piece->call(call);
      if (!piece->captured) {
        grad = backward_eagerly(part, grad, nullptr);
      } else if (replays(call)) {
        grad = replay_backward(part, grad);
      } else {
        grad = backward_eagerly(part, grad, &record_backward(part, grad));
      }
    }
    return grad;
  }

  void add_wgrads(const LayerCall& /*call*/) override {
    throw InternalError("graphs of single layers of `local` add all weight gradients themselves");
  }

  void release(std::int32_t microbatch, const LayerRange& layers) override {
    layers_.release(microbatch, layers);
  }

  void end_schedule_call(const IterationCall& call) override {
    in_flight_.clear();
    if (call.mode == IterationMode::validation) return;
    deferred_.finish();
    for (auto& [piece, order] : rotation_) order = 0;
    ++schedule_calls_;
    if (created_) coverage_.after_replayed_call();
    if (!created_ && !record_.empty()) create_graphs();
  }

  bool captured() const override { return created_; }
  bool returns_lasting_values() const override { return !created_ && layers_.keeps_outputs(); }

  void destroy() override {
    layers_.clear();
    kept_saved_.clear();
    eager_grad_inputs_.clear();
    deferred_.clear();
    if (context_.fault(Fault::f32d_buffers_freed_before_graphs)) {
      for (LocalRunner& runner : runners_) runner.release_memory();
    }
    for (auto runner = runners_.rbegin(); runner != runners_.rend(); ++runner) {
      runner->destroy_graphs();
    }
    for (LocalRunner& runner : runners_) runner.release_memory();
    runners_.clear();
  }

 private:
  struct Recorded {
    LocalRunner* runner;
    bool forward;
  };
  using PieceKey = std::pair<std::int32_t, std::int32_t>;            ///< layer, piece
  using Key = std::tuple<std::int32_t, std::int32_t, std::int32_t>;  ///< layer, piece, micro-batch

  static PieceKey piece_of(const LayerCall& call) { return {call.layer, call.piece}; }
  static Key key_of(const LayerCall& call) { return {call.layer, call.piece, call.microbatch}; }

  bool selected(const LayerCall& call) const {
    return !call.validation && !call.partial && !coverage_.leaves_out(call) &&
           !context_.plan.captured_modules.at(static_cast<std::size_t>(call.layer)).empty();
  }
  bool replays(const LayerCall& call) const { return created_ && selected(call); }
  bool records(const LayerCall& call) const {
    return !created_ && schedule_calls_ >= coverage_.capture_delay() && selected(call);
  }

  const std::vector<LayerPiece>& pieces(const LayerCall& call) {
    std::vector<LayerPiece>& pieces = pieces_[call.layer];
    if (pieces.empty()) pieces = pieces_of(*call.module, call.layer, context_.plan);
    return pieces;
  }

  TensorView forward_eagerly(const LayerCall& call, const TensorView& input, LocalRunner* runner) {
    TensorView output;
    const std::uint64_t launches = keeper_.run_eagerly(
        layer_execution(call, true), [&] { output = layers_.forward(call, input); });
    if (runner != nullptr) runner->see_launches(true, launches);
    if (reads_capture_slots(call)) keep_saved(call);
    return output;
  }

  TensorView backward_eagerly(const LayerCall& call, const TensorView& grad_output,
                              LocalRunner* runner) {
    TensorView grad_input;
    const std::uint64_t launches = keeper_.run_eagerly(
        layer_execution(call, false), [&] { grad_input = layers_.backward(call, grad_output); });
    if (runner != nullptr) runner->see_launches(false, launches);
    return grad_input;
  }

  LocalRunner& record_forward(const LayerCall& call, const TensorView& input) {
    LocalRunner& runner = acquire(call);
    runner.set_busy(true);
    in_flight_[key_of(call)] = &runner;
    runner.see_input(input, producer_of(neighbour(call, -1), [&](const LayerCall& before) {
                       return layers_.output_address(before) == input.data;
                     }));
    if (runner.record_forward()) record_.push_back({&runner, true});
    return runner;
  }

  LocalRunner& record_backward(const LayerCall& call, const TensorView& grad_output) {
    LocalRunner& runner = *in_flight_.at(key_of(call));
    runner.set_busy(false);
    runner.see_grad_output(grad_output,
                           producer_of(neighbour(call, 1), [&](const LayerCall& after) {
                             return layers_.grad_input_address(after) == grad_output.data;
                           }));
    if (runner.record_backward()) record_.push_back({&runner, false});
    return runner;
  }

  /// The piece before (-1) or after (1) a call in the order of execution.
  LayerCall neighbour(const LayerCall& call, std::int32_t step) const {
    LayerCall other = call;
    other.piece += step;
    const auto known = pieces_.find(call.layer);
    const auto count = static_cast<std::int32_t>(known->second.size());
    if (other.piece >= 0 && other.piece < count) return other;
    other.layer += step;
    const auto layer = pieces_.find(other.layer);
    const bool from_its_end = step < 0 && layer != pieces_.end();
    other.piece = from_its_end ? static_cast<std::int32_t>(layer->second.size()) - 1 : 0;
    return other;
  }

  /// The runner of a call in flight that `gave` what the caller was given; null where there is
  /// none.
  template <typename Gave>
  LocalRunner* producer_of(const LayerCall& call, const Gave& gave) const {
    const auto runner = in_flight_.find(key_of(call));
    return runner != in_flight_.end() && gave(call) ? runner->second : nullptr;
  }

  /// Without a pipeline a runner is used again as soon as its backward ran; with one, every
  /// micro-batch has its own.
  LocalRunner& acquire(const LayerCall& call) {
    std::vector<LocalRunner*>& own = runners_of_[piece_of(call)];
    if (!runner_a_microbatch_) {
      const bool overlap = context_.fault(Fault::f04a_shared_output_slot);
      for (LocalRunner* runner : own) {
        if (!runner->busy() || overlap) return *runner;
      }
    }
    LocalRunner& runner = runners_.emplace_back(context_, body_, keeper_, call);
    if (context_.fault(Fault::f04a_shared_output_slot)) runner.accept_overlap();
    own.push_back(&runner);
    return runner;
  }

  // F06a: the order of a stage that runs no forward ahead.
  void take_each_microbatch_at_once() {
    std::stable_sort(record_.begin(), record_.end(), [](const Recorded& a, const Recorded& b) {
      if (a.runner->microbatch() != b.runner->microbatch()) {
        return a.runner->microbatch() < b.runner->microbatch();
      }
      return a.forward && !b.forward;
    });
  }

  void create_graphs() {
    context_.device().synchronize();  // errors of the recorded call belong to its phase
    const bool separate = context_.plan.separate_pools;
    PoolId pool = default_pool;
    if (!separate) pool = keeper_.create_pool("graph");
    for (LocalRunner& runner : runners_) runner.set_busy(false);
    if (context_.fault(Fault::f06a_pool_planned_for_other_order)) take_each_microbatch_at_once();
    for (const Recorded& recorded : record_) {
      if (separate) {
        pool = keeper_.create_pool(fmt::format("graph {}", context_.record.graphs.size()));
      }
      if (pool_of_captures_ != pool) keeper_.ledger().open_captures(pool);
      pool_of_captures_ = pool;
      if (recorded.forward) {
        recorded.runner->capture_forward(pool);
      } else {
        recorded.runner->capture_backward(pool);
      }
    }
    keeper_.ledger().close_captures();
    body_.faults().after_last_capture(pool);
    record_.clear();
    created_ = true;
  }

  /// The layer's runners in turn; the turn begins anew with every schedule call.
  LocalRunner& next_runner(const LayerCall& call) {
    std::vector<LocalRunner*>& own = runners_of_.at(piece_of(call));
    LocalRunner* runner = own.at(0);
    if (runner_a_microbatch_) {
      std::size_t& turn = rotation_[piece_of(call)];
      runner = own[turn++ % own.size()];
    } else {
      for (LocalRunner* candidate : own) {
        runner = candidate;
        if (!candidate->busy()) break;
      }
    }
    in_flight_[key_of(call)] = runner;
    return *runner;
  }

  TensorView replay_backward(const LayerCall& call, const TensorView& grad_output) {
    LocalRunner& runner = *in_flight_.at(key_of(call));
    if (reads_capture_slots(call)) return backward_from_capture_slots(call, runner, grad_output);
    const TensorView grad_input = runner.backward(call, grad_output);
    deferred_.hand_out(call);
    return grad_input;
  }

  // F04d: the backward of the first captured layer runs eagerly, from what was saved when the
  // graphs were made.
  bool reads_capture_slots(const LayerCall& call) const {
    return context_.fault(Fault::f04d_eager_backward_reads_capture_slots) && selected(call) &&
           !runners_.empty() && call.layer == runners_.front().layer() &&
           call.piece == runners_.front().piece();
  }

  SavedActivations copy_of(const SavedActivations& saved) {
    SavedActivations copy;
    for (const auto& [name, view] : saved.views()) {
      Buffer own(context_.allocator(), context_.stream(), default_pool, view.dtype, view.shape,
                 "saved at capture");
      context_.stream().copy(own.view(), view, "saved at capture");
      copy.keep(name, std::move(own));
    }
    return copy;
  }

  void keep_saved(const LayerCall& call) {
    kept_saved_[key_of(call)] = copy_of(layers_.saved(call));
  }

  TensorView backward_from_capture_slots(const LayerCall& call, LocalRunner& runner,
                                         const TensorView& grad_output) {
    runner.set_busy(false);
    SavedActivations saved = copy_of(kept_saved_.at(key_of(call)));
    Buffer& grad_input = eager_grad_inputs_[key_of(call)];
    keeper_.run_eagerly(layer_execution(call, false),
                        [&] { grad_input = body_.backward(call, BodyMode{}, grad_output, saved); });
    return grad_input.view();
  }

  LegContext& context_;
  LayerBody& body_;
  GraphKeeper& keeper_;
  EagerLayers layers_;
  DeferredGradients deferred_;
  CoverageFaults coverage_;
  std::int32_t schedule_calls_ = 0;  ///< of training
  bool runner_a_microbatch_;
  bool created_ = false;
  PoolId pool_of_captures_ = default_pool;
  std::deque<LocalRunner> runners_;
  std::map<std::int32_t, std::vector<LayerPiece>> pieces_;  ///< by layer, of those selected
  std::map<PieceKey, std::vector<LocalRunner*>> runners_of_;
  std::map<PieceKey, std::size_t> rotation_;
  std::map<Key, LocalRunner*> in_flight_;
  std::vector<Recorded> record_;
  std::map<Key, SavedActivations> kept_saved_;
  std::map<Key, Buffer> eager_grad_inputs_;
};

}  // namespace

std::unique_ptr<CaptureImplementation> make_local_capture(LegContext& context, LayerBody& body,
                                                          GraphKeeper& keeper) {
  return std::make_unique<LocalCapture>(context, body, keeper);
}

}  // namespace cgconform::workloads

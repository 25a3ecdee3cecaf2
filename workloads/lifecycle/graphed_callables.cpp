#include "workloads/lifecycle/graphed_callables.hpp"

#include <optional>

#include <fmt/format.h>

#include "matrix/cell.hpp"
#include "workloads/faults/fault_switches.hpp"
#include "workloads/rng/rng_tracker.hpp"
#include "workloads/training/data_loader.hpp"
#include "workloads/training/stage_model.hpp"

namespace cgconform::workloads {
namespace {

matrix::Cell callable_cell() {
  matrix::Cell cell;
  cell.config.num_layers = 2;
  cell.config.hidden_size = 16;
  cell.config.num_attention_heads = 2;
  cell.config.seq_length = 8;
  return cell;
}

/// What outlives a run in its record.
struct CallableMemory {
  explicit CallableMemory(Device& device)
      : main(device.create_stream("callables")),
        side(device.create_stream("callables side")),
        allocator(device.segment_source()) {}

  std::unique_ptr<Stream> main;
  std::unique_ptr<Stream> side;
  CachingAllocator allocator;
};

/// The activations between a forward of all layers and its backward.
struct Activations {
  std::vector<Buffer> values;  ///< outputs of the layers
  std::vector<SavedActivations> saved;
};

class CallableScene {
 public:
  CallableScene(Device& device, const CallableRequest& request, const FaultSwitches* faults,
                CallableMemory& memory)
      : device_(device),
        request_(request),
        handed_out_static_(faults != nullptr &&
                           faults->is_on(Fault::f04b_weight_grad_slot_handed_out)),
        memory_(memory),
        cell_(callable_cell()),
        model_(make_stage_model(cell_, request.seed, 0, memory.allocator, *memory.main)),
        loader_({1, cell_.config.seq_length, cell_.shape.vocab_size}, request.seed),
        rng_(memory.allocator, *memory.main, request.seed, {}),
        tokens_(memory.allocator, *memory.main, default_pool, DType::int32,
                Shape{cell_.config.seq_length}, "tokens") {}

  void run(CallableRecord& record) {
    reset();
    for (std::int32_t call = 0; call < request_.calls; ++call) call_eagerly(call, record.eager);
    hand_out_gradients(record.eager);
    make_graphs(record);
    reset();
    const std::uint64_t before = device_.counters().graph_launches;
    for (std::int32_t call = 0; call < request_.calls; ++call) replay(call, record.graphed);
    device_.synchronize();
    record.replays = device_.counters().graph_launches - before;
    hand_out_gradients(record.graphed);
    if (handed_out_static_) take_static_slots(record.graphed);
    device_.synchronize();
    destroy();
  }

 private:
  Stream& main() const { return *memory_.main; }

  Buffer clone(const TensorView& value, const std::string& label) {
    Buffer copy(memory_.allocator, main(), default_pool, value.dtype, value.shape, label);
    main().copy(copy.view(), value, label);
    return copy;
  }

  LayerContext context(Stream& stream, PoolId pool) {
    return {.stream = stream,
            .allocator = memory_.allocator,
            .pool = pool,
            .rng = rng_.state(),
            .faults = no_faults_,
            .training = request_.trained,
            .label = "callable"};
  }

  /// Gradients and the random state as before the first call.
  void reset() {
    for (const ParameterChunk& chunk : model_->parameter_chunks()) {
      main().fill(chunk.main_grads, 0, "zero main gradients");
    }
    rng_.reseed(main(), request_.seed);
    main().synchronize();
  }

  Buffer embed(std::int32_t call) {
    const HostBatch batch = loader_.batch(BatchUse::training, call, 0);
    main().upload(tokens_.view(), batch.tokens.data(), false, "tokens");
    LayerContext at = context(main(), default_pool);
    return model_->embed(at, {.tokens = tokens_.view()});
  }

  /// All layers; the last value is the output.
  Activations forward(LayerContext at, const TensorView& input) {
    Activations kept;
    TensorView value = input;
    for (Layer* layer : model_->layers()) {
      kept.values.push_back(layer->forward(at, value, kept.saved.emplace_back()));
      value = kept.values.back().view();
    }
    return kept;
  }

  /// Gradients of the inputs of all layers, the callable's last; parameters' are accumulated.
  std::vector<Buffer> backward(LayerContext at, const TensorView& grad, Activations& kept) {
    std::vector<Buffer> grads;
    TensorView value = grad;
    for (std::size_t layer = kept.saved.size(); layer-- > 0;) {
      grads.push_back(model_->layers()[layer]->backward(at, value, kept.saved[layer]));
      value = grads.back().view();
    }
    return grads;
  }

  void call_eagerly(std::int32_t call, CallableRecord::Tensors& handed_out) {
    const Buffer input = embed(call);
    Activations kept = forward(context(main(), default_pool), input.view());
    const TensorView& output = kept.values.back().view();
    handed_out.emplace_back(fmt::format("output of call {}", call), clone(output, "output"));
    if (!request_.trained) return;
    // The output serves as its own gradient: another one at every call.
    const std::vector<Buffer> grads =
        backward(context(main(), default_pool), handed_out.back().second.view(), kept);
    handed_out.emplace_back(fmt::format("input gradient of call {}", call),
                            clone(grads.back().view(), "input gradient"));
  }

  void hand_out_gradients(CallableRecord::Tensors& handed_out) {
    if (!request_.trained) return;
    for (const StageParameter& entry : model_->parameters()) {
      if (entry.part != ModelPart::layer) continue;
      handed_out.emplace_back(fmt::format("gradient of layer {} {}", entry.layer, entry.name),
                              clone(entry.parameter.main_grad, "gradient"));
    }
  }

  void warm_up() {
    const std::unique_ptr<Event> before = device_.create_event();
    main().record(*before);
    memory_.side->wait(*before);
    for (std::int32_t run = 0; run < request_.warmups; ++run) {
      Activations kept = forward(context(*memory_.side, default_pool), input_->view());
      if (request_.trained) {
        backward(context(*memory_.side, default_pool), grad_->view(), kept);
      }
    }
    memory_.side->synchronize();
  }

  void make_graphs(CallableRecord& record) {
    const Buffer sample = embed(0);
    input_.emplace(clone(sample.view(), "static input"));
    grad_.emplace(clone(sample.view(), "static output gradient"));
    main().synchronize();
    warm_up();
    pool_ = memory_.allocator.create_pool("callables");
    const LaunchCounters before = device_.counters();
    memory_.side->begin_capture(CaptureMode::thread_local_mode);
    kept_ = forward(context(*memory_.side, pool_), input_->view());
    forward_graph_ = memory_.side->end_capture();
    if (request_.trained) {
      memory_.side->begin_capture(CaptureMode::thread_local_mode);
      grads_ = backward(context(*memory_.side, pool_), grad_->view(), kept_);
      backward_graph_ = memory_.side->end_capture();
    }
    device_.synchronize();
    const LaunchCounters after = device_.counters();
    record.ran_at_capture = after.eager_launches - before.eager_launches + after.graph_nodes_run -
                            before.graph_nodes_run;
    record.nodes = forward_graph_->nodes().size();
    forward_exec_ = forward_graph_->instantiate();
    if (!backward_graph_) return;
    record.nodes += backward_graph_->nodes().size();
    backward_exec_ = backward_graph_->instantiate();
  }

  void replay(std::int32_t call, CallableRecord::Tensors& handed_out) {
    const Buffer input = embed(call);
    main().copy(input_->view(), input.view(), "static input");
    forward_exec_->launch(main());
    const TensorView& output = kept_.values.back().view();
    handed_out.emplace_back(fmt::format("output of call {}", call), clone(output, "output"));
    if (!request_.trained) return;
    main().copy(grad_->view(), output, "static output gradient");
    backward_exec_->launch(main());
    handed_out.emplace_back(fmt::format("input gradient of call {}", call),
                            clone(grads_.back().view(), "input gradient"));
  }

  /// The fault: callers hold the static slots, and read them when all calls are done.
  void take_static_slots(CallableRecord::Tensors& handed_out) {
    for (auto& [name, tensor] : handed_out) {
      if (name.starts_with("output")) {
        main().copy(tensor.view(), kept_.values.back().view(), "handed out without a clone");
      }
    }
  }

  void destroy() {
    forward_exec_.reset();
    backward_exec_.reset();
    forward_graph_.reset();
    backward_graph_.reset();
    kept_ = {};
    grads_.clear();
    memory_.allocator.destroy_pool(pool_);
  }

  Device& device_;
  const CallableRequest& request_;
  bool handed_out_static_;
  FaultSwitches no_faults_;
  CallableMemory& memory_;
  matrix::Cell cell_;
  std::unique_ptr<StageModel> model_;
  DataLoader loader_;
  RngTracker rng_;
  Buffer tokens_;
  std::optional<Buffer> input_;
  std::optional<Buffer> grad_;
  PoolId pool_ = default_pool;
  Activations kept_;
  std::vector<Buffer> grads_;
  std::unique_ptr<Graph> forward_graph_;
  std::unique_ptr<Graph> backward_graph_;
  std::unique_ptr<GraphExec> forward_exec_;
  std::unique_ptr<GraphExec> backward_exec_;
};

}  // namespace

CallableRecord run_graphed_callables(Device& device, const CallableRequest& request,
                                     const FaultSwitches* faults) {
  const auto memory = std::make_shared<CallableMemory>(device);
  CallableRecord record;
  record.memory = memory;
  CallableScene scene(device, request, faults, *memory);
  scene.run(record);
  return record;
}

}  // namespace cgconform::workloads

#include "workloads/lifecycle/communicator_teardown.hpp"

#include <array>
#include <chrono>
#include <memory>
#include <utility>

#include "workloads/allocator/caching_allocator.hpp"
#include "workloads/faults/fault_switches.hpp"
#include "workloads/lifecycle/communicator_keeper.hpp"

namespace cgconform::workloads {
namespace {

constexpr std::int64_t elements = 16;
/// Of a communicator that is ended although a graph holds it (F32h).
constexpr std::chrono::milliseconds short_timeout{20};

/// A graph that reduces, with all it needs.
class TeardownScene {
 public:
  explicit TeardownScene(Device& device)
      : device_(device),
        stream_(device.create_stream("teardown")),
        allocator_(device.segment_source()),
        input_(buffer("input")),
        output_(buffer("output")),
        communicator_(make_communicator()) {
    // Eager first: nothing may be used for the first time in a capture.
    communicator_->all_reduce(output_.view(), input_.view(), ReduceOp::sum, *stream_, "eager");
    device_.synchronize();
    stream_->begin_capture(CaptureMode::thread_local_mode);
    communicator_->all_reduce(output_.view(), input_.view(), ReduceOp::sum, *stream_, "captured");
    graph_ = stream_->end_capture();
    exec_ = graph_->instantiate();
  }

  bool replays_rightly(std::int32_t value) {
    std::array<std::int32_t, elements> given{};
    std::array<std::int32_t, elements> seen{};
    given.fill(value);
    stream_->upload(input_.view(), given.data(), false, "input");
    stream_->fill(output_.view(), 0, "output");
    exec_->launch(*stream_);
    stream_->download(seen.data(), output_.view());
    return seen == given;
  }

  void retire(CommunicatorEnd how, CommunicatorTeardown& record) {
    record.references_when_retired = communicator_->live_graph_references();
    record.deferred = !keeper_.retire(std::move(communicator_), how);
  }

  /// Ends the communicator whatever holds it, and makes another of its name.
  void make_anew(CommunicatorTeardown& record) {
    record.references_when_retired = communicator_->live_graph_references();
    try {
      communicator_->close();
    } catch (const DeviceError& error) {
      record.error = error.what();
    }
    former_ = std::exchange(communicator_, nullptr);
    communicator_ = make_communicator();
    const std::uint64_t before = exec_->launches();
    try {
      exec_->launch(*stream_);
      stream_->synchronize();
    } catch (const DeviceError& error) {
      record.error = error.what();
    }
    record.launches_after_end = exec_->launches() - before;
  }

  void drain() { device_.synchronize(); }
  void destroy_graphs() {
    exec_.reset();
    graph_.reset();
  }
  void end_unused() { keeper_.end_unused(); }
  bool ended() const { return keeper_.deferred() == 0; }

 private:
  Buffer buffer(const char* label) {
    return Buffer(allocator_, *stream_, default_pool, DType::int32, Shape{elements}, label);
  }
  std::unique_ptr<Communicator> make_communicator() {
    return device_.create_communicator({.name = "teardown", .timeout = short_timeout});
  }

  Device& device_;
  std::unique_ptr<Stream> stream_;
  CachingAllocator allocator_;
  Buffer input_;
  Buffer output_;
  CommunicatorKeeper keeper_;
  std::unique_ptr<Communicator> former_;
  std::unique_ptr<Communicator> communicator_;
  std::unique_ptr<Graph> graph_;
  std::unique_ptr<GraphExec> exec_;
};

template <typename Part>
void timed(CommunicatorTeardown& record, Part&& part) {
  const auto start = std::chrono::steady_clock::now();
  try {
    part();
  } catch (const DeviceError& error) {
    record.error = error.what();
  }
  record.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

CommunicatorTeardown run_communicator_teardown(Device& device, CommunicatorEnd how,
                                               const FaultSwitches* faults) {
  const auto fault = [&](Fault one) { return faults != nullptr && faults->is_on(one); };
  CommunicatorTeardown record;
  TeardownScene scene(device);
  record.replayed_rightly = scene.replays_rightly(7) && scene.replays_rightly(8);
  timed(record, [&] {
    if (fault(Fault::f32h_communicator_made_anew)) {
      scene.make_anew(record);
    } else if (fault(Fault::f32a_communicator_destroyed_first)) {
      scene.retire(CommunicatorEnd::destroy, record);
      scene.drain();
      scene.destroy_graphs();
    } else if (fault(Fault::f32b_communicator_aborted_first)) {
      scene.retire(CommunicatorEnd::abort, record);
      scene.drain();
      scene.destroy_graphs();
    } else {
      scene.drain();
      scene.destroy_graphs();
      scene.retire(how, record);
    }
    scene.end_unused();
  });
  record.ended = scene.ended();
  return record;
}

CommunicatorTeardown retire_before_graphs(Device& device, CommunicatorEnd how) {
  CommunicatorTeardown record;
  TeardownScene scene(device);
  timed(record, [&] {
    scene.retire(how, record);
    record.replayed_rightly = scene.replays_rightly(7) && scene.replays_rightly(8);
    scene.drain();
    scene.destroy_graphs();
    scene.end_unused();
  });
  record.ended = scene.ended();
  return record;
}

}  // namespace cgconform::workloads

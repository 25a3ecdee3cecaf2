#include "workloads/lifecycle/captured_collective.hpp"

#include "workloads/faults/fault_switches.hpp"

namespace cgconform::workloads {
namespace {

constexpr std::int64_t elements = 16;

Buffer zeros(CachingAllocator& allocator, Stream& stream, const char* label) {
  Buffer buffer(allocator, stream, default_pool, DType::int32, Shape{elements}, label);
  stream.fill(buffer.view(), 0, label);
  return buffer;
}

}  // namespace

CapturedCollective::CapturedCollective(Device& device, Communicator& communicator)
    : stream_(device.create_stream("captured collective")),
      allocator_(device.segment_source()),
      input_(zeros(allocator_, *stream_, "input")),
      output_(zeros(allocator_, *stream_, "output")) {
  // Eager first: nothing may be used for the first time in a capture.
  communicator.all_reduce(output_.view(), input_.view(), ReduceOp::sum, *stream_, "eager");
  stream_->synchronize();
  stream_->begin_capture(CaptureMode::thread_local_mode);
  communicator.all_reduce(output_.view(), input_.view(), ReduceOp::sum, *stream_, "captured");
  graph_ = stream_->end_capture();
  exec_ = graph_->instantiate();
}

void CapturedCollective::destroy_graphs() {
  exec_.reset();
  graph_.reset();
}

void replay_and_tear_down(Device& device, Communicator& communicator, const FaultSwitches* faults,
                          const std::function<void()>& announce) {
  CapturedCollective captured(device, communicator);
  captured.replay();
  captured.wait();
  announce();
  const bool destroys_early = faults != nullptr && faults->is_on(Fault::f32g_rank_destroys_early) &&
                              communicator.rank() == 0;
  if (!destroys_early) captured.replay();
  captured.wait();
  captured.destroy_graphs();
}

}  // namespace cgconform::workloads

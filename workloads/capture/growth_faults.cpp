#include "workloads/capture/growth_faults.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

namespace cgconform::workloads {
namespace {

constexpr std::int64_t operation_block = std::int64_t{64} << 10;
constexpr std::size_t operations = 8;
constexpr std::int64_t small_block = 256;
constexpr std::size_t host_records = 10;
using HostRecordOfCapture = std::array<std::array<std::byte, 40000>, host_records>;

}  // namespace

void GrowthFaults::keep_block(PoolId pool, std::int64_t bytes, const char* label) {
  context_.memory.kept.push_back(std::make_shared<Buffer>(context_.allocator(), context_.stream(),
                                                          pool, DType::uint8, Shape{bytes}, label));
}

void GrowthFaults::in_capture(PoolId pool) {
  if (context_.fault(Fault::f30d_allocation_without_free)) {
    keep_block(pool, small_block, "allocated in a capture");
  }
}

void GrowthFaults::after_capture(const Graph& graph, std::shared_ptr<void> user_object) {
  if (context_.fault(Fault::f30a_device_block_an_operation)) {
    const std::size_t blocks = std::min(graph.nodes().size(), operations);
    for (std::size_t i = 0; i < blocks; ++i) {
      keep_block(default_pool, operation_block, "block of a captured operation");
    }
  }
  if (context_.fault(Fault::f30b_host_record_a_capture)) {
    context_.memory.kept.push_back(std::make_shared<HostRecordOfCapture>());
  }
  if (context_.fault(Fault::f30c_user_object_kept)) {
    context_.memory.kept.push_back(std::move(user_object));
  }
}

void GrowthFaults::after_step() {
  if (context_.fault(Fault::f30h_device_block_a_step)) {
    keep_block(default_pool, small_block, "block of a step");
  }
}

void GrowthFaults::before_destruction(bool replaced) {
  keeps_next_ = context_.fault(replaced ? Fault::f30g_hidden_reference_a_cycle
                                        : Fault::f32e_hidden_reference);
}

void GrowthFaults::after_cleanup() {
  if (!context_.fault(Fault::f32f_capture_after_cleanup)) return;
  keep_block(default_pool, small_block, "captured after the cleanup");
  const auto block = std::static_pointer_cast<Buffer>(context_.memory.kept.back());
  context_.stream().begin_capture(CaptureMode::thread_local_mode);
  context_.stream().fill(block->view(), 0, "captured after the cleanup");
  context_.memory.kept.push_back(std::shared_ptr<Graph>(context_.stream().end_capture()));
}

void GrowthFaults::before_destruction(std::unique_ptr<GraphExec>& exec) {
  if (!std::exchange(keeps_next_, false)) return;
  context_.memory.kept.push_back(std::shared_ptr<GraphExec>(std::move(exec)));
}

}  // namespace cgconform::workloads

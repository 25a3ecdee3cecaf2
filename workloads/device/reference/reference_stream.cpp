#include "workloads/device/reference/reference_stream.hpp"

#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "workloads/device/reference/reference_graph.hpp"

namespace cgconform::workloads::reference {
namespace {

Core::EventState& state_of(Event& event) {
  auto* reference = dynamic_cast<ReferenceEvent*>(&event);
  if (reference == nullptr) throw InternalError("an event of another device was used");
  return reference->state();
}

}  // namespace

const std::shared_ptr<StreamState>& state_of(Stream& stream) {
  auto* reference = dynamic_cast<ReferenceStream*>(&stream);
  if (reference == nullptr) throw InternalError("a stream of another device was used");
  return reference->state();
}

bool ReferenceEvent::query() {
  return core_->call("event query", {}, [&] { return core_->query_event(state_); });
}

void ReferenceEvent::synchronize() {
  core_->call("event synchronize", {}, [&] { core_->synchronize_event(state_); });
}

double ReferenceEvent::elapsed_since(Event& start) {
  return core_->call("event elapsed", {}, [&] { return core_->elapsed(state_of(start), state_); });
}

ReferenceStream::ReferenceStream(std::shared_ptr<Core> core, std::shared_ptr<StreamState> state)
    : core_(std::move(core)), state_(std::move(state)) {}

ReferenceStream::~ReferenceStream() {
  core_->forget_stream(state_);
}

void ReferenceStream::launch(const OpCall& call) {
  core_->call("launch", call.label, [&] {
    if (call.op == nullptr || call.op->reference == nullptr) {
      throw DeviceError(ErrorCategory::not_supported, "launch",
                        fmt::format("'{}': op {} has no kernel on the reference device", call.label,
                                    call.op == nullptr ? "(none)" : call.op->name));
    }
    core_->enqueue(state_, {.kind = NodeKind::kernel, .call = call}, "launch");
  });
}

void ReferenceStream::copy(const TensorView& destination, const TensorView& source,
                           std::string label) {
  core_->call("copy", label, [&] {
    if (destination.bytes() != source.bytes()) {
      throw DeviceError(ErrorCategory::invalid_value, "copy",
                        fmt::format("'{}': {} bytes to a destination of {}", label, source.bytes(),
                                    destination.bytes()));
    }
    core_->enqueue(state_, make_copy(destination, source, label), "copy");
  });
}

void ReferenceStream::fill(const TensorView& destination, std::uint8_t byte, std::string label) {
  core_->call("fill", label,
              [&] { core_->enqueue(state_, make_fill(destination, byte, label), "fill"); });
}

void ReferenceStream::upload(const TensorView& destination, const void* host, bool pinned,
                             std::string label) {
  core_->call(pinned ? "upload" : pageable_upload_call, label, [&] {
    if (pinned || core_->capture_status(state_) != CaptureStatus::none) {
      core_->enqueue(state_, make_upload(destination, host, label), "upload");
      return;
    }
    auto staging =
        std::make_shared<std::vector<std::byte>>(static_cast<std::size_t>(destination.bytes()));
    if (!staging->empty()) std::memcpy(staging->data(), host, staging->size());
    Command command = make_upload(destination, staging->data(), label);
    command.staging = std::move(staging);
    core_->enqueue(state_, std::move(command), "upload");
  });
}

void ReferenceStream::download(void* host, const TensorView& source) {
  core_->call("download", {}, [&] {
    // Outside captures only; otherwise the synchronisation below is refused and nothing is copied.
    if (core_->capture_status(state_) == CaptureStatus::none) {
      core_->require_safe(CaptureViolation::synchronize_other_stream, "download");
      core_->enqueue(state_, make_download(host, source), "download");
    }
    core_->synchronize(state_);
  });
}

void ReferenceStream::host_function(std::function<void()> function, std::string label) {
  core_->call("host function", label, [&] {
    core_->enqueue(state_, make_host_function(std::move(function), label), "host function");
  });
}

void ReferenceStream::record(Event& event) {
  core_->call("event record", {}, [&] { core_->record(state_, state_of(event)); });
}

void ReferenceStream::wait(Event& event) {
  core_->call("stream wait", {}, [&] { core_->wait(state_, state_of(event)); });
}

void ReferenceStream::synchronize() {
  core_->call("stream synchronize", {}, [&] { core_->synchronize(state_); });
}

bool ReferenceStream::query() {
  return core_->call("stream query", {}, [&] { return core_->query(state_); });
}

void ReferenceStream::begin_capture(CaptureMode mode) {
  core_->call("begin capture", {}, [&] { core_->begin_capture(state_, mode); });
}

std::unique_ptr<Graph> ReferenceStream::end_capture() {
  return core_->call("end capture", {}, [&]() -> std::unique_ptr<Graph> {
    return std::make_unique<ReferenceGraph>(core_, core_->end_capture(state_));
  });
}

CaptureStatus ReferenceStream::capture_status() const {
  return core_->capture_status(state_);
}

}  // namespace cgconform::workloads::reference

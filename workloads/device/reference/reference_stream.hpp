#pragma once

#include <functional>
#include <memory>
#include <string>

#include "workloads/device/reference/core.hpp"
#include "workloads/device/stream.hpp"

namespace cgconform::workloads::reference {

class ReferenceEvent : public Event {
 public:
  ReferenceEvent(std::shared_ptr<Core> core, EventKind kind)
      : core_(std::move(core)), state_{.kind = kind} {}
  bool query() override;
  void synchronize() override;
  double elapsed_since(Event& start) override;
  Core::EventState& state() { return state_; }

 private:
  std::shared_ptr<Core> core_;
  LiveObject live_{core_->live_objects().events};
  Core::EventState state_;
};

/// A stream's handle. Destroying it lets queued work run on; a capture begun on it is dropped.
class ReferenceStream : public Stream {
 public:
  ReferenceStream(std::shared_ptr<Core> core, std::shared_ptr<StreamState> state);
  ~ReferenceStream() override;
  ReferenceStream(const ReferenceStream&) = delete;
  ReferenceStream& operator=(const ReferenceStream&) = delete;

  std::uint64_t id() const override { return state_->id; }
  void launch(const OpCall& call) override;
  void copy(const TensorView& destination, const TensorView& source, std::string label) override;
  void fill(const TensorView& destination, std::uint8_t byte, std::string label) override;
  void upload(const TensorView& destination, const void* host, bool pinned,
              std::string label) override;
  void download(void* host, const TensorView& source) override;
  void host_function(std::function<void()> function, std::string label) override;
  void record(Event& event) override;
  void wait(Event& event) override;
  void synchronize() override;
  bool query() override;
  void begin_capture(CaptureMode mode) override;
  std::unique_ptr<Graph> end_capture() override;
  CaptureStatus capture_status() const override;

  const std::shared_ptr<StreamState>& state() const { return state_; }

 private:
  std::shared_ptr<Core> core_;
  std::shared_ptr<StreamState> state_;
};

/// The state behind a stream of this device; throws InternalError for another device's stream.
const std::shared_ptr<StreamState>& state_of(Stream& stream);

}  // namespace cgconform::workloads::reference

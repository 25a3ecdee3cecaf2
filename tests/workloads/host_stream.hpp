#pragma once

#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "matrix/error.hpp"
#include "workloads/device/stream.hpp"

namespace cgconform::workloads::test {

/// A stream over plain host memory, for tests of kernels alone: work runs inside the call, or is
/// only kept where `run` is false.
class HostStream final : public Stream {
 public:
  explicit HostStream(bool run = true) : run_(run) {}

  const std::vector<OpCall>& calls() const { return calls_; }

  std::uint64_t id() const override { return 0; }
  void launch(const OpCall& call) override {
    calls_.push_back(call);
    if (run_) call.op->reference(call);
  }
  void copy(const TensorView& destination, const TensorView& source, std::string) override {
    std::memcpy(destination.data, source.data, static_cast<std::size_t>(source.bytes()));
  }
  void fill(const TensorView& destination, std::uint8_t byte, std::string) override {
    std::memset(destination.data, byte, static_cast<std::size_t>(destination.bytes()));
  }
  void upload(const TensorView& destination, const void* host, bool, std::string) override {
    std::memcpy(destination.data, host, static_cast<std::size_t>(destination.bytes()));
  }
  void download(void* host, const TensorView& source) override {
    std::memcpy(host, source.data, static_cast<std::size_t>(source.bytes()));
  }
  void host_function(std::function<void()> function, std::string) override { function(); }
  void record(Event&) override { refuse("record"); }
  void wait(Event&) override { refuse("wait"); }
  void synchronize() override {}
  bool query() override { return true; }
  void begin_capture(CaptureMode) override { refuse("begin_capture"); }
  std::unique_ptr<Graph> end_capture() override { return refuse("end_capture"), nullptr; }
  CaptureStatus capture_status() const override { return CaptureStatus::none; }

 private:
  static void refuse(const char* call) {
    throw InternalError(std::string("HostStream has no ") + call);
  }

  bool run_;
  std::vector<OpCall> calls_;
};

}  // namespace cgconform::workloads::test

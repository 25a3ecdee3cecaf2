#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "workloads/device/communicator.hpp"

namespace cgconform::workloads::testing {

/// A gang of two of which only this rank is real: what the peer says is written by the test.
class ScriptedGang final : public Communicator {
 public:
  using Peer = std::function<std::string(const std::string& mine, int call)>;
  ScriptedGang(int rank, Peer peer) : rank_(rank), peer_(std::move(peer)) {}

  int rank() const override { return rank_; }
  int size() const override { return 2; }
  const std::string& name() const override { return name_; }
  void send(const TensorView&, int, Stream&, std::string) override {}
  void receive(const TensorView&, int, Stream&, std::string) override {}
  void all_reduce(const TensorView&, const TensorView&, ReduceOp, Stream&, std::string) override {}
  void broadcast(const TensorView&, int, Stream&, std::string) override {}
  void all_gather(const TensorView&, const TensorView&, Stream&, std::string) override {}
  void reduce_scatter(const TensorView&, const TensorView&, Stream&, std::string) override {}
  std::vector<std::string> exchange(const std::string& mine) override {
    const std::string theirs = peer_(mine, calls_++);
    return rank_ == 0 ? std::vector{mine, theirs} : std::vector{theirs, mine};
  }
  std::unique_ptr<Communicator> split(int, const std::string&) override { return nullptr; }
  ErrorCategory async_error() const override { return ErrorCategory::success; }
  int live_graph_references() const override { return 0; }

 private:
  int rank_;
  Peer peer_;
  int calls_ = 0;
  std::string name_ = "scripted";
};

}  // namespace cgconform::workloads::testing

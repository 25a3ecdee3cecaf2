#pragma once

#include <chrono>
#include <filesystem>
#include <string>

#include "workloads/device/communicator.hpp"

namespace cgconform::harness {

/// A rendezvous of processes by files in a directory that they share.
class FileStore final : public workloads::RendezvousStore {
 public:
  explicit FileStore(std::filesystem::path directory) : directory_(std::move(directory)) {}
  void set(const std::string& key, const std::string& value) override;
  std::string get(const std::string& key, std::chrono::milliseconds deadline) override;

 private:
  std::filesystem::path path_of(const std::string& key) const;
  std::filesystem::path directory_;
};

}  // namespace cgconform::harness

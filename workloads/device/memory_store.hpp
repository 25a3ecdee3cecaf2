#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>

#include "workloads/device/communicator.hpp"

namespace cgconform::workloads {

/// A rendezvous of ranks that are threads of one process. Thread-safe.
class MemoryStore : public RendezvousStore {
 public:
  void set(const std::string& key, const std::string& value) override;
  std::string get(const std::string& key, std::chrono::milliseconds deadline) override;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
};

}  // namespace cgconform::workloads

#include "workloads/device/memory_store.hpp"

#include <fmt/format.h>

#include "workloads/device/errors.hpp"

namespace cgconform::workloads {

void MemoryStore::set(const std::string& key, const std::string& value) {
  {
    const std::lock_guard lock(mutex_);
    values_[key] = value;
  }
  changed_.notify_all();
}

std::string MemoryStore::get(const std::string& key, std::chrono::milliseconds deadline) {
  std::unique_lock lock(mutex_);
  if (!changed_.wait_for(lock, deadline, [&] { return values_.count(key) > 0; })) {
    throw DeviceError(ErrorCategory::communicator_timeout, "rendezvous",
                      fmt::format("no rank published '{}' within {} ms; see whether all ranks of "
                                  "the gang started",
                                  key, deadline.count()));
  }
  return values_.at(key);
}

}  // namespace cgconform::workloads

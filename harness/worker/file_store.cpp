#include "harness/worker/file_store.hpp"

#include <fstream>
#include <iterator>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "workloads/device/errors.hpp"

namespace cgconform::harness {

std::filesystem::path FileStore::path_of(const std::string& key) const {
  std::string name;
  for (const char c : key) name += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return directory_ / name;
}

void FileStore::set(const std::string& key, const std::string& value) {
  const std::filesystem::path path = path_of(key);
  std::filesystem::path part = path;
  part += ".part";
  std::ofstream(part, std::ios::binary) << value;
  std::filesystem::rename(part, path);  // whole, or not there
}

std::string FileStore::get(const std::string& key, std::chrono::milliseconds deadline) {
  constexpr std::chrono::milliseconds step{1};
  const auto end = std::chrono::steady_clock::now() + deadline;
  const std::filesystem::path path = path_of(key);
  while (!std::filesystem::exists(path)) {
    if (std::chrono::steady_clock::now() >= end) {
      throw workloads::DeviceError(
          workloads::ErrorCategory::communicator_timeout, "rendezvous",
          fmt::format("no rank published '{}' within {} ms", key, deadline.count()));
    }
    std::this_thread::sleep_for(step);
  }
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace cgconform::harness

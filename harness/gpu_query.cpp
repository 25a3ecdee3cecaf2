#include "harness/gpu_query.hpp"

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/file_descriptor.hpp"
#include "harness/system_error.hpp"
#include "workloads/device/cuda/cuda_device.hpp"

namespace cgconform::harness {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::string_view query_option = "--gpu-of-local-rank";
/// For a driver to initialise, with as many processes beside as the host has ranks.
constexpr std::chrono::seconds answer_deadline{40};

void require(int result) {
  if (result == 0) return;
  errno = result;
  throw_system_error("asking for the GPU of a rank");
}

/// Starts the program with its standard output on `output`.
pid_t start(std::string program, int local_rank, int output) {
  posix_spawn_file_actions_t actions{};
  require(::posix_spawn_file_actions_init(&actions));
  ::posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  std::string option(query_option);
  std::string value = std::to_string(local_rank);
  std::array<char*, 4> words{program.data(), option.data(), value.data(), nullptr};
  pid_t pid = -1;
  const int result = ::posix_spawn(&pid, program.c_str(), &actions, nullptr, words.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  require(result);
  return pid;
}

/// What can be read until the other end closes or the deadline passes.
std::string read_until(int descriptor, Clock::time_point deadline) {
  std::string text;
  std::array<char, 512> bytes{};
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    pollfd entry{descriptor, POLLIN, 0};
    if (left.count() <= 0 || ::poll(&entry, 1, static_cast<int>(left.count())) <= 0) return text;
    const ssize_t count = ::read(descriptor, bytes.data(), bytes.size());
    if (count <= 0) return text;
    text.append(bytes.data(), static_cast<std::size_t>(count));
  }
}

}  // namespace

std::optional<GpuIdentity> ask_for_gpu(const std::filesystem::path& worker_program,
                                       int local_rank) {
  std::array<int, 2> pipe{};
  if (::pipe2(pipe.data(), O_CLOEXEC) != 0) throw_system_error("asking for the GPU of a rank");
  const FileDescriptor reading(pipe[0]);
  pid_t pid = -1;
  {
    const FileDescriptor writing(pipe[1]);
    pid = start(worker_program.string(), local_rank, writing.get());
  }
  const std::string answer = read_until(reading.get(), Clock::now() + answer_deadline);
  ::kill(pid, SIGKILL);
  int status = 0;
  ::waitpid(pid, &status, 0);
  const std::size_t space = answer.find(' ');
  const std::size_t end = answer.find('\n');
  if (space == std::string::npos || end == std::string::npos || end < space) return std::nullopt;
  return GpuIdentity{std::atoi(answer.c_str()), answer.substr(space + 1, end - space - 1)};
}

std::optional<int> asked_local_rank(std::span<char* const> command_line) {
  if (command_line.size() < 3 || command_line[1] != query_option) return std::nullopt;
  return std::atoi(command_line[2]);
}

int answer_gpu_query(int local_rank) {
  const int count = workloads::cuda_device_count();
  if (count == 0) return 1;
  const int ordinal = local_rank % count;
  const std::string uuid = workloads::cuda_device_uuid(ordinal);
  if (uuid.empty()) return 1;
  std::fputs(fmt::format("{} {}\n", ordinal, uuid).c_str(), stdout);
  return 0;
}

}  // namespace cgconform::harness

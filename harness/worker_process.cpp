#include "harness/worker_process.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/process_tree.hpp"
#include "harness/system_error.hpp"

namespace cgconform::harness {
namespace {

/// Variables through which launchers speak to MPI processes; a worker is none.
constexpr std::array<std::string_view, 6> launcher_prefixes{"OMPI_", "PMIX_", "PMI_",
                                                            "ORTE_", "PRTE_", "OPAL_"};
constexpr std::chrono::milliseconds kill_deadline{5000};
constexpr std::chrono::microseconds wait_step{200};

/// Threads keep no freed blocks, so that the size of the heap says what is held (MEM-01).
constexpr std::string_view tunables_name = "GLIBC_TUNABLES";
constexpr std::string_view exact_heap = "glibc.malloc.tcache_count=0";

std::string with_exact_heap(std::string_view tunables) {
  return fmt::format("{}={}{}{}", tunables_name, tunables, tunables.empty() ? "" : ":", exact_heap);
}

std::vector<std::string> worker_environment(const matrix::ProcessEnvironment& own) {
  std::vector<std::string> variables;
  std::string tunables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view variable(*entry);
    const bool of_launcher =
        std::any_of(launcher_prefixes.begin(), launcher_prefixes.end(),
                    [&](std::string_view prefix) { return variable.starts_with(prefix); });
    const std::string name(variable.substr(0, variable.find('=')));
    if (name == tunables_name) {
      tunables = variable.substr(name.size() + 1);
    } else if (!of_launcher && !own.contains(name)) {
      variables.emplace_back(variable);
    }
  }
  for (const auto& [name, value] : own) variables.push_back(fmt::format("{}={}", name, value));
  variables.push_back(with_exact_heap(tunables));
  return variables;
}

/// Reports the error number that the posix_spawn family returns.
void require(int result, const std::string& what) {
  if (result == 0) return;
  errno = result;
  throw_system_error(what);
}

class FileActions {
 public:
  FileActions() { require(::posix_spawn_file_actions_init(&actions_), "preparing a worker"); }
  ~FileActions() { ::posix_spawn_file_actions_destroy(&actions_); }
  FileActions(const FileActions&) = delete;
  FileActions& operator=(const FileActions&) = delete;
  FileActions(FileActions&&) = delete;
  FileActions& operator=(FileActions&&) = delete;

  posix_spawn_file_actions_t* get() { return &actions_; }
  void duplicate(int from, int to) {
    require(::posix_spawn_file_actions_adddup2(&actions_, from, to), "preparing a worker");
  }
  void open(int descriptor, const std::string& path, int flags) {
    require(::posix_spawn_file_actions_addopen(&actions_, descriptor, path.c_str(), flags, 0666),
            "preparing a worker");
  }
  void close_from(int descriptor) {
    require(::posix_spawn_file_actions_addclosefrom_np(&actions_, descriptor),
            "preparing a worker");
  }

 private:
  posix_spawn_file_actions_t actions_{};
};

class SpawnAttributes {
 public:
  SpawnAttributes() {
    require(::posix_spawnattr_init(&attributes_), "preparing a worker");
    sigset_t none;
    sigset_t all;
    sigemptyset(&none);
    sigfillset(&all);
    require(::posix_spawnattr_setsigmask(&attributes_, &none), "preparing a worker");
    require(::posix_spawnattr_setsigdefault(&attributes_, &all), "preparing a worker");
    require(::posix_spawnattr_setflags(
                &attributes_, static_cast<short>(POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK |
                                                 POSIX_SPAWN_SETSIGDEF)),
            "preparing a worker");
  }
  ~SpawnAttributes() { ::posix_spawnattr_destroy(&attributes_); }
  SpawnAttributes(const SpawnAttributes&) = delete;
  SpawnAttributes& operator=(const SpawnAttributes&) = delete;
  SpawnAttributes(SpawnAttributes&&) = delete;
  SpawnAttributes& operator=(SpawnAttributes&&) = delete;
  const posix_spawnattr_t* get() const { return &attributes_; }

 private:
  posix_spawnattr_t attributes_{};
};

/// A copy above the numbers that the worker's descriptors get, so that making one cannot close
/// another.
FileDescriptor moved_up(int descriptor) {
  constexpr int above = 16;
  FileDescriptor copy(::fcntl(descriptor, F_DUPFD_CLOEXEC, above));
  if (!copy.is_open()) throw_system_error("preparing a worker");
  return copy;
}

pid_t spawn(const WorkerOptions& options, int channel, int board) {
  const FileDescriptor channel_copy = moved_up(channel);
  const FileDescriptor board_copy = moved_up(board);
  FileActions actions;
  actions.open(STDIN_FILENO, "/dev/null", O_RDONLY);
  if (options.log_file.empty()) {
    actions.duplicate(STDERR_FILENO, STDOUT_FILENO);
  } else {
    actions.open(STDOUT_FILENO, options.log_file.string(), O_WRONLY | O_CREAT | O_APPEND);
    actions.duplicate(STDOUT_FILENO, STDERR_FILENO);
  }
  actions.duplicate(channel_copy.get(), worker_channel_descriptor);
  actions.duplicate(board_copy.get(), worker_board_descriptor);
  actions.close_from(worker_board_descriptor + 1);
  const SpawnAttributes attributes;
  std::vector<std::string> variables = worker_environment(options.environment);
  std::vector<char*> environment;
  environment.reserve(variables.size() + 1);
  for (std::string& variable : variables) environment.push_back(variable.data());
  environment.push_back(nullptr);
  std::vector<std::string> words = options.wrapper;
  words.push_back(options.program.string());
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t pid = -1;
  require(::posix_spawn(&pid, words.front().c_str(), actions.get(), attributes.get(),
                        arguments.data(), environment.data()),
          fmt::format("starting the worker {}", words.front()));
  return pid;
}

}  // namespace

WorkerProcess::WorkerProcess(const WorkerOptions& options)
    : channel_(FileDescriptor()), board_(BoardMapping::create()) {
  auto [mine, theirs] = socket_pair();
  channel_ = ControlChannel(std::move(mine));
  pid_ = spawn(options, theirs.get(), board_.descriptor());
}

WorkerProcess::~WorkerProcess() {
  channel_.close();
  if (!end_) await_end(std::chrono::milliseconds{0});
}

std::size_t WorkerProcess::request_stacks() const {
  // Under a wrapper the worker is not the process that was started.
  const pid_t told = board().process.load();
  const pid_t process = told != 0 ? told : pid_;
  std::size_t asked = 0;
  for (const pid_t thread : threads_of(process)) {
    if (::syscall(SYS_tgkill, process, thread, stack_dump_signal()) == 0) ++asked;
  }
  return asked;
}

void WorkerProcess::terminate() const {
  // A stopped process gets the TERM once it continues.
  if (!end_) {
    ::kill(-pid_, SIGTERM);
    ::kill(-pid_, SIGCONT);
  }
}

std::optional<ProcessEnd> WorkerProcess::poll_end() {
  if (end_) return end_;
  siginfo_t info{};
  if (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
      info.si_pid == 0) {
    return std::nullopt;
  }
  kill_session(pid_);
  int status = 0;
  ::waitpid(pid_, &status, 0);
  ProcessEnd end;
  if (WIFSIGNALED(status)) {
    end.signal = WTERMSIG(status);
  } else {
    end.exit_code = WEXITSTATUS(status);
  }
  end_ = end;
  return end_;
}

ProcessEnd WorkerProcess::await_end(std::chrono::milliseconds grace) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  bool killed = false;
  while (true) {
    if (const auto end = poll_end()) return *end;
    const auto waited = Clock::now() - start;
    if (!killed && waited >= grace) {
      kill_session(pid_);
      killed = true;
    }
    if (waited >= grace + kill_deadline) {
      // The kernel does not let go of it: a device driver holds it.
      end_ = ProcessEnd{SIGKILL, 0};
      return *end_;
    }
    std::this_thread::sleep_for(wait_step);
  }
}

}  // namespace cgconform::harness

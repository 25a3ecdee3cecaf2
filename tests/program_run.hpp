#pragma once

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/build_paths.hpp"
#include "tests/temporary_directory.hpp"

namespace cgconform::testing {

/// How a program ended that a test has run.
struct ProgramEnd {
  int exit_code = -1;  ///< -1 where a signal ended it, or the deadline passed
  bool timed_out = false;
  std::string out;
  std::string err;
};

/// A program that a test has started, with its output in pipes. Ended with its process group when
/// the object goes.
class StartedProgram {
 public:
  StartedProgram(const std::vector<std::string>& words, const std::vector<std::string>& variables) {
    std::array<int, 2> out{};
    std::array<int, 2> err{};
    if (::pipe2(out.data(), O_CLOEXEC) != 0 || ::pipe2(err.data(), O_CLOEXEC) != 0) std::abort();
    pid_ = ::fork();
    if (pid_ == 0) {
      ::setpgid(0, 0);
      const int null = ::open("/dev/null", O_RDONLY);
      ::dup2(null, STDIN_FILENO);
      ::dup2(out[1], STDOUT_FILENO);
      ::dup2(err[1], STDERR_FILENO);
      for (const std::string& variable : variables) {
        const std::size_t equals = variable.find('=');
        ::setenv(variable.substr(0, equals).c_str(), variable.substr(equals + 1).c_str(), 1);
      }
      std::vector<char*> arguments;
      for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
      arguments.push_back(nullptr);
      ::execvp(arguments.front(), arguments.data());
      ::_exit(127);
    }
    ::close(out[1]);
    ::close(err[1]);
    out_ = out[0];
    err_ = err[0];
  }
  ~StartedProgram() {
    if (!reaped_) {
      ::kill(-pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    ::close(out_);
    ::close(err_);
  }
  StartedProgram(const StartedProgram&) = delete;
  StartedProgram& operator=(const StartedProgram&) = delete;
  StartedProgram(StartedProgram&&) = delete;
  StartedProgram& operator=(StartedProgram&&) = delete;

  pid_t pid() const { return pid_; }

  /// Reads the output to its end, then the exit status; kills the program at the deadline.
  ProgramEnd finish(std::chrono::seconds deadline) {
    const auto end_time = std::chrono::steady_clock::now() + deadline;
    ProgramEnd end;
    std::array<pollfd, 2> pipes{pollfd{out_, POLLIN, 0}, pollfd{err_, POLLIN, 0}};
    int open = 2;
    while (open > 0) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
          end_time - std::chrono::steady_clock::now());
      if (left.count() <= 0 ||
          ::poll(pipes.data(), pipes.size(), static_cast<int>(left.count())) == 0) {
        end.timed_out = true;
        ::kill(-pid_, SIGKILL);
        break;
      }
      for (pollfd& pipe : pipes) {
        if (pipe.revents == 0) continue;
        std::array<char, 65536> chunk{};
        const ssize_t count = ::read(pipe.fd, chunk.data(), chunk.size());
        if (count > 0) {
          (pipe.fd == out_ ? end.out : end.err)
              .append(chunk.data(), static_cast<std::size_t>(count));
        } else if (count == 0) {
          pipe.fd = -1;
          --open;
        }
      }
    }
    int status = 0;
    ::waitpid(pid_, &status, 0);
    reaped_ = true;
    if (!end.timed_out && WIFEXITED(status)) end.exit_code = WEXITSTATUS(status);
    return end;
  }

 private:
  pid_t pid_ = -1;
  int out_ = -1;
  int err_ = -1;
  bool reaped_ = false;
};

inline std::string cgconform_program() {
  return std::string(CGCONFORM_BINARY_DIR) + "/bin/cgconform";
}

inline ProgramEnd run_program(const std::vector<std::string>& words,
                              const std::vector<std::string>& variables = {},
                              std::chrono::seconds deadline = std::chrono::seconds{120}) {
  StartedProgram program(words, variables);
  return program.finish(deadline);
}

/// Runs cgconform alone.
inline ProgramEnd run_cgconform(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), cgconform_program());
  return run_program(arguments);
}

/// Lets mpirun start more ranks than there are cores, also as root and in containers.
inline std::vector<std::string> launcher_variables() {
  return {"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
          "OMPI_MCA_btl_vader_single_copy_mechanism=none", "OMPI_MCA_mpi_yield_when_idle=1"};
}

/// `mpirun -np RANKS cgconform ARGUMENTS`.
inline std::vector<std::string> launch_line(int ranks, const std::vector<std::string>& arguments) {
  std::vector<std::string> words{"mpirun", "--oversubscribe", "-np", std::to_string(ranks),
                                 cgconform_program()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return words;
}

/// Processes whose environment holds `variable`, zombies excepted: whatever a run has started,
/// wherever it moved.
inline std::vector<pid_t> processes_with(const std::string& variable) {
  std::vector<pid_t> found;
  std::error_code error;
  for (std::filesystem::directory_iterator entry("/proc", error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const std::string environment = '\0' + read_file(entry->path() / "environ");
    if (environment.find('\0' + variable + '\0') != std::string::npos) {
      found.push_back(static_cast<pid_t>(std::stol(name)));
    }
  }
  return found;
}

/// Waits until `condition` holds; false where it does not within the deadline.
inline bool eventually(const std::function<bool()>& condition,
                       std::chrono::seconds deadline = std::chrono::seconds{20}) {
  const auto end = std::chrono::steady_clock::now() + deadline;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    ::poll(nullptr, 0, 5);
  }
  return true;
}

}  // namespace cgconform::testing

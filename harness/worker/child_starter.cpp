#include "harness/worker/child_starter.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <optional>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/file_descriptor.hpp"
#include "harness/system_error.hpp"
#include "harness/worker/child_main.hpp"

namespace cgconform::harness {
namespace {

using suites::ChildEnd;
using suites::ChildOutcome;
using suites::ChildRequest;
using Clock = std::chrono::steady_clock;

/// Until a child announces its dangerous part: a device and a communicator have to be made.
constexpr std::chrono::seconds start_deadline{60};

void require(int result, const char* what) {
  if (result == 0) return;
  errno = result;
  throw_system_error(what);
}

/// A directory of its own, removed with all it holds.
class ScratchDirectory {
 public:
  ScratchDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "cgconform-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw_system_error("making a directory for children");
    path_ = name;
  }
  ~ScratchDirectory() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// One child process, from its start to its end; killed where it is left alone.
class Child {
 public:
  explicit Child(const ChildArguments& arguments) {
    std::array<int, 2> pipe{};
    if (::pipe2(pipe.data(), O_CLOEXEC) != 0) throw_system_error("starting a child");
    output_ = FileDescriptor(pipe[0]);
    const FileDescriptor theirs(pipe[1]);
    posix_spawn_file_actions_t actions{};
    require(::posix_spawn_file_actions_init(&actions), "starting a child");
    ::posix_spawn_file_actions_adddup2(&actions, theirs.get(), STDOUT_FILENO);
    ::posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
    std::vector<std::string> line = child_command_line(arguments);
    std::string file = "/proc/self/exe";
    std::vector<char*> pointers{file.data()};
    for (std::string& word : line) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    const int result =
        ::posix_spawn(&pid_, file.c_str(), &actions, nullptr, pointers.data(), environ);
    ::posix_spawn_file_actions_destroy(&actions);
    require(result, "starting a child");
  }
  ~Child() {
    if (pid_ > 0) finish(true);
  }
  Child(Child&& other) noexcept
      : pid_(std::exchange(other.pid_, -1)),
        output_(std::move(other.output_)),
        begin_(other.begin_),
        outcome_(std::move(other.outcome_)) {}
  Child& operator=(Child&&) = delete;
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  bool running() const { return pid_ > 0; }
  int descriptor() const { return output_.get(); }
  const ChildOutcome& outcome() const { return outcome_; }
  Clock::time_point deadline(std::chrono::milliseconds dangerous_part) const {
    return announced_ ? begin_ + dangerous_part : begin_ + start_deadline;
  }

  /// Takes what the child wrote; where it has closed its output, its end.
  void read() {
    std::array<char, 4096> bytes{};
    const ssize_t count = ::read(output_.get(), bytes.data(), bytes.size());
    if (count <= 0) {
      finish(false);
      return;
    }
    outcome_.output.append(bytes.data(), static_cast<std::size_t>(count));
    const auto place = outcome_.output.find(child_announcement);
    if (announced_ || place == std::string::npos) return;
    outcome_.output.erase(place, std::string_view(child_announcement).size());
    announced_ = true;
    begin_ = Clock::now();
  }

  /// Waits for the child's end; kills it before where it missed its deadline.
  void finish(bool late) {
    if (late) ::kill(pid_, SIGKILL);
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    outcome_.seconds = std::chrono::duration<double>(Clock::now() - begin_).count();
    const bool well = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (!announced_) {
      outcome_.end = ChildEnd::no_start;
    } else if (late) {
      outcome_.end = ChildEnd::hung;
    } else {
      outcome_.end = well ? ChildEnd::exited : ChildEnd::failed;
    }
  }

 private:
  pid_t pid_ = -1;
  FileDescriptor output_;
  bool announced_ = false;
  Clock::time_point begin_ = Clock::now();
  ChildOutcome outcome_;
};

struct Group {
  const ChildRequest* request;
  std::vector<Child> ranks;
};

void poll_once(std::vector<Group>& groups) {
  std::vector<pollfd> descriptors;
  std::vector<Child*> children;
  auto next = Clock::time_point::max();
  for (Group& group : groups) {
    for (Child& child : group.ranks) {
      if (!child.running()) continue;
      descriptors.push_back({child.descriptor(), POLLIN, 0});
      children.push_back(&child);
      next = std::min(next, child.deadline(group.request->deadline));
    }
  }
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now());
  const int timeout = static_cast<int>(std::max<std::int64_t>(left.count(), 0));
  if (::poll(descriptors.data(), descriptors.size(), timeout) > 0) {
    for (std::size_t i = 0; i < children.size(); ++i) {
      if (descriptors[i].revents != 0) children[i]->read();
    }
  }
  for (Group& group : groups) {
    for (Child& child : group.ranks) {
      if (child.running() && Clock::now() >= child.deadline(group.request->deadline)) {
        child.finish(true);
      }
    }
  }
}

bool any_running(const std::vector<Group>& groups) {
  return std::any_of(groups.begin(), groups.end(), [](const Group& group) {
    return std::any_of(group.ranks.begin(), group.ranks.end(),
                       [](const Child& child) { return child.running(); });
  });
}

/// From best to worst.
int badness(ChildEnd end) {
  constexpr std::array order{ChildEnd::exited, ChildEnd::failed, ChildEnd::hung,
                             ChildEnd::no_start};
  return static_cast<int>(std::find(order.begin(), order.end(), end) - order.begin());
}

ChildOutcome worst_of(const Group& group) {
  ChildOutcome worst{.end = ChildEnd::exited};
  for (const Child& child : group.ranks) {
    const ChildOutcome& one = child.outcome();
    if (badness(one.end) >= badness(worst.end)) worst.end = one.end;
    worst.seconds = std::max(worst.seconds, one.seconds);
    worst.output += one.output;
  }
  while (!worst.output.empty() && worst.output.back() == '\n') worst.output.pop_back();
  std::replace(worst.output.begin(), worst.output.end(), '\n', ' ');
  return worst;
}

}  // namespace

std::vector<ChildOutcome> start_children(const std::vector<ChildRequest>& requests,
                                         const std::string& device,
                                         const std::vector<std::string>& faults) {
  const ScratchDirectory scratch;
  std::vector<Group> groups;
  for (const ChildRequest& request : requests) {
    const std::filesystem::path store = scratch.path() / std::string(request.program);
    std::filesystem::create_directory(store);
    Group& group = groups.emplace_back(Group{&request, {}});
    for (int rank = 0; rank < request.ranks; ++rank) {
      group.ranks.emplace_back(ChildArguments{.program = std::string(request.program),
                                              .device = device,
                                              .rank = rank,
                                              .ranks = request.ranks,
                                              .store_directory = store.string(),
                                              .faults = faults});
    }
  }
  while (any_running(groups)) poll_once(groups);
  std::vector<ChildOutcome> outcomes;
  outcomes.reserve(groups.size());
  for (const Group& group : groups) outcomes.push_back(worst_of(group));
  return outcomes;
}

}  // namespace cgconform::harness

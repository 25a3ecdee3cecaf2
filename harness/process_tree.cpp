#include "harness/process_tree.hpp"

#include <charconv>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>

namespace cgconform::harness {
namespace {

namespace fs = std::filesystem;

/// Entries of a /proc folder whose names are numbers.
std::vector<pid_t> numbered_entries(const fs::path& folder) {
  std::vector<pid_t> numbers;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    pid_t number = 0;
    const auto parsed = std::from_chars(name.data(), name.data() + name.size(), number);
    if (parsed.ec == std::errc() && parsed.ptr == name.data() + name.size()) {
      numbers.push_back(number);
    }
  }
  return numbers;
}

struct ProcessStatus {
  char state = 'X';
  pid_t parent = -1;
  pid_t session = -1;
};

ProcessStatus status_of(pid_t process) {
  std::ifstream file(fs::path("/proc") / std::to_string(process) / "stat");
  std::string line;
  std::getline(file, line);
  // The program's name stands in parentheses and may hold any character, these too.
  const std::size_t name_end = line.rfind(')');
  ProcessStatus status;
  if (name_end == std::string::npos) return status;
  std::istringstream rest(line.substr(name_end + 1));
  pid_t group = 0;
  rest >> status.state >> status.parent >> group >> status.session;
  return status;
}

}  // namespace

std::vector<pid_t> session_members(pid_t session) {
  std::vector<pid_t> members;
  for (const pid_t process : numbered_entries("/proc")) {
    const ProcessStatus status = status_of(process);
    if (status.session == session && status.state != 'Z' && status.state != 'X') {
      members.push_back(process);
    }
  }
  return members;
}

std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> children;
  for (const pid_t process : numbered_entries("/proc")) {
    if (status_of(process).parent == parent) children.push_back(process);
  }
  return children;
}

std::vector<pid_t> threads_of(pid_t process) {
  return numbered_entries(fs::path("/proc") / std::to_string(process) / "task");
}

std::size_t kill_session(pid_t session) {
  ::kill(-session, SIGKILL);
  const std::vector<pid_t> members = session_members(session);
  for (const pid_t process : members) ::kill(process, SIGKILL);
  return members.size();
}

}  // namespace cgconform::harness

#include "harness/journal.hpp"

#include <cerrno>
#include <csignal>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/file.h>
#include <unistd.h>

#include "harness/journal_line.hpp"
#include "harness/system_error.hpp"
#include "matrix/error.hpp"
#include "suites/result_json.hpp"

namespace cgconform::harness {
namespace {

using nlohmann::json;

constexpr std::chrono::milliseconds lock_step{20};

json header_to_json(const JournalHeader& header) {
  return {{"journal_version", header.version}, {"matrix", header.matrix},
          {"matrix_hash", header.matrix_hash}, {"binary_hash", header.binary_hash},
          {"worker_hash", header.worker_hash}, {"seed", header.seed},
          {"device", header.device},           {"ranks", header.ranks},
          {"options", header.options},         {"variables", header.variables},
          {"arguments", header.arguments},     {"directory", header.directory}};
}

/// True where the lock is held; false where another process holds it. A file system without locks
/// grants it.
bool try_lock(int descriptor) {
  while (::flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return false;
    if (errno != EINTR) return true;
  }
  return true;
}

[[noreturn]] void refuse_locked(const std::filesystem::path& path) {
  throw InputError(fmt::format(
      "{}: a run that is still going on writes to it; wait for its end, or name another "
      "folder with --report",
      path.string()));
}

/// The ranks of a run whose launcher was killed end a moment after it.
void await_lock(int descriptor, const std::filesystem::path& path) {
  const auto deadline = std::chrono::steady_clock::now() + Journal::lock_deadline;
  while (!try_lock(descriptor)) {
    if (std::chrono::steady_clock::now() > deadline) refuse_locked(path);
    std::this_thread::sleep_for(lock_step);
  }
}

std::string to_text(const json& object) {
  return object.dump(-1, ' ', false, json::error_handler_t::replace);
}

FileDescriptor open_journal(const std::filesystem::path& path, int flags) {
  FileDescriptor file(::open(path.c_str(), O_RDWR | O_APPEND | O_CLOEXEC | flags, 0666));
  if (!file.is_open()) {
    const int number = errno;
    throw InputError(
        fmt::format("{}: cannot be written: {}", path.string(), system_reason(number)));
  }
  return file;
}

}  // namespace

Journal::Journal(const std::filesystem::path& path, const JournalHeader& header)
    : path_(path), file_(open_journal(path, O_CREAT | O_EXCL)), last_sync_(Clock::now()) {
  if (!try_lock(file_.get())) refuse_locked(path_);
  write_line(to_text(header_to_json(header)));
}

Journal::Journal(const std::filesystem::path& path)
    : path_(path), file_(open_journal(path, 0)), last_sync_(Clock::now()) {
  await_lock(file_.get(), path_);
  before_ = read_journal(path_);
  chain_ = before_.chain;
}

Journal::~Journal() {
  if (dirty_) ::fdatasync(file_.get());
}

void Journal::resume() {
  if (::ftruncate(file_.get(), static_cast<off_t>(before_.end)) != 0) {
    throw_system_error(fmt::format("{}: cutting off the torn last line", path_.string()));
  }
  write_line(to_text({{"resumed", before_.resumptions + 1}}));
}

void Journal::append(const suites::CellResult& result) {
  write_line(to_text(suites::to_json(result)));
  tick();
}

void Journal::finish(int exit_code) {
  write_line(to_text({{"finished", exit_code}}));
  sync();
}

void Journal::tick() {
  if (dirty_ && Clock::now() - last_sync_ >= sync_interval) sync();
}

void Journal::sync() {
  if (::fdatasync(file_.get()) != 0 && errno != EINVAL && errno != EROFS) {
    throw_system_error(fmt::format("{}: writing to disk", path_.string()));
  }
  dirty_ = false;
  last_sync_ = Clock::now();
}

void Journal::write_line(const std::string& object) {
  const std::string line = chained_line(object, chain_);
  ssize_t written = -1;
  do {
    written = ::write(file_.get(), line.data(), line.size());
  } while (written < 0 && errno == EINTR);
  if (written != static_cast<ssize_t>(line.size())) {
    if (written >= 0) errno = ENOSPC;
    throw_system_error(fmt::format("{}: writing", path_.string()));
  }
  dirty_ = true;
}

void require_unlocked(const std::filesystem::path& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.is_open()) await_lock(file.get(), path);
}

}  // namespace cgconform::harness

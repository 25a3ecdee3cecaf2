#include "harness/journal.hpp"

#include <cerrno>
#include <fstream>
#include <iterator>

#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "harness/system_error.hpp"
#include "matrix/error.hpp"
#include "suites/result_json.hpp"

namespace cgconform::harness {
namespace {

using nlohmann::json;

json header_to_json(const JournalHeader& header) {
  return {{"journal_version", header.version},
          {"matrix", header.matrix},
          {"matrix_hash", header.matrix_hash},
          {"binary_hash", header.binary_hash},
          {"seed", header.seed},
          {"device", header.device},
          {"options", header.options}};
}

JournalHeader header_from_json(const json& object) {
  JournalHeader header;
  header.version = object.at("journal_version").get<int>();
  header.matrix = object.at("matrix").get<std::string>();
  header.matrix_hash = object.at("matrix_hash").get<std::string>();
  header.binary_hash = object.at("binary_hash").get<std::string>();
  header.seed = object.at("seed").get<std::uint64_t>();
  header.device = object.at("device").get<std::string>();
  header.options = object.at("options").get<std::vector<std::string>>();
  return header;
}

std::string to_line(const json& object) {
  return object.dump(-1, ' ', false, json::error_handler_t::replace) + '\n';
}

}  // namespace

Journal::Journal(const std::filesystem::path& path, const JournalHeader& header)
    : path_(path),
      file_(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_EXCL, 0666)),
      last_sync_(Clock::now()) {
  if (!file_.is_open()) {
    const int number = errno;
    throw InputError(
        fmt::format("{}: cannot be written: {}", path.string(), system_reason(number)));
  }
  write_line(to_line(header_to_json(header)));
}

Journal::~Journal() {
  if (dirty_) ::fdatasync(file_.get());
}

void Journal::append(const suites::CellResult& result) {
  write_line(to_line(suites::to_json(result)));
  tick();
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

void Journal::write_line(std::string line) {
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

JournalContents read_journal(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw InputError(fmt::format("{}: cannot be read", path.string()));
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  JournalContents contents;
  std::size_t begin = 0;
  for (std::size_t number = 1; begin < text.size(); ++number) {
    const std::size_t end = text.find('\n', begin);
    if (end == std::string::npos) {
      contents.torn = true;
      break;
    }
    const std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    try {
      const json object = json::parse(line);
      if (number == 1) {
        contents.header = header_from_json(object);
      } else {
        contents.results.push_back(suites::cell_result_from_json(object));
      }
    } catch (const std::exception& error) {
      throw InputError(
          fmt::format("{}:{}: no line of a journal: {}", path.string(), number, error.what()));
    }
  }
  if (begin == 0) {
    throw InputError(fmt::format("{}: holds no journal; its first line is missing", path.string()));
  }
  return contents;
}

}  // namespace cgconform::harness

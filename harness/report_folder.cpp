#include "harness/report_folder.hpp"

#include <array>
#include <cerrno>
#include <string>
#include <string_view>
#include <system_error>

#include <fmt/format.h>
#include <unistd.h>

#include "harness/journal.hpp"
#include "harness/system_error.hpp"
#include "matrix/error.hpp"

namespace cgconform::harness {
namespace {

namespace fs = std::filesystem;

/// What a run writes. `--force` removes these and nothing else.
constexpr std::array<std::string_view, 6> report_entries{
    "journal.jsonl", "results.jsonl", "summary.json", "junit.xml", "probes.json", "logs"};
/// What a run that is resumed writes anew; the other reports are replaced in one go.
constexpr std::array<std::string_view, 1> rewritten_entries{"results.jsonl"};
constexpr int most_numbered_folders = 100000;

[[noreturn]] void refuse(const fs::path& folder, const std::string& reason) {
  throw InputError(
      fmt::format("--report {}: {}; name a folder that can be written", folder.string(), reason));
}

/// Makes the folder; true where it is new or empty. Only one of several runs that start together
/// gets a new folder.
bool make_empty_folder(const fs::path& folder) {
  std::error_code error;
  if (folder.has_parent_path()) fs::create_directories(folder.parent_path(), error);
  if (error) refuse(folder, error.message());
  const bool made = fs::create_directory(folder, error);
  if (error) refuse(folder, error.message());
  const bool empty = made || fs::is_empty(folder, error);
  if (error) refuse(folder, error.message());
  return empty;
}

}  // namespace

fs::path prepare_report_folder(const fs::path& wanted, bool force) {
  fs::path folder = wanted.has_filename() ? wanted : wanted.parent_path();
  bool ready = make_empty_folder(folder);
  if (!ready && force) {
    require_unlocked(folder / report_entries.front());
    for (const std::string_view entry : report_entries) {
      std::error_code error;
      fs::remove_all(folder / entry, error);
      if (error) refuse(folder / entry, error.message());
    }
    ready = true;
  }
  for (int number = 1; !ready && number < most_numbered_folders; ++number) {
    folder = fs::path(fmt::format(
        "{}.{}", wanted.has_filename() ? wanted.string() : wanted.parent_path().string(), number));
    ready = make_empty_folder(folder);
  }
  if (!ready) refuse(folder, "every numbered name is taken");
  if (::access(folder.c_str(), W_OK | X_OK) != 0) refuse(folder, system_reason(errno));
  return folder;
}

void clear_resumed_reports(const fs::path& folder) {
  for (const std::string_view entry : rewritten_entries) {
    std::error_code error;
    fs::remove(folder / entry, error);
    if (error) refuse(folder / entry, error.message());
  }
}

}  // namespace cgconform::harness

#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/file_descriptor.hpp"
#include "suites/result_record.hpp"

namespace cgconform::harness {

constexpr int journal_version = 2;

/// What a run has to share with the one it resumes, and how it was started.
struct JournalHeader {
  int version = journal_version;
  std::string matrix;
  std::string matrix_hash;
  std::string binary_hash;
  std::string worker_hash;
  std::uint64_t seed = 0;
  std::string device;
  int ranks = 1;
  std::vector<std::string> options;              ///< that decide what is run and how it is judged
  std::map<std::string, std::string> variables;  ///< that change what a run does
  std::vector<std::string> arguments;            ///< of the command line, the program's name not
  std::string directory;                         ///< in which it was started
  friend bool operator==(const JournalHeader&, const JournalHeader&) = default;
};

/// What a journal holds. A cell is known by its hash and, in a run that repeats its cells, by the
/// round.
struct JournalContents {
  JournalHeader header;
  std::vector<suites::CellResult> results;  ///< in the order written, provisional ones included
  std::optional<int> finished;              ///< the exit code, where the run came to its end
  int resumptions = 0;
  bool torn = false;      ///< the last line was not complete
  std::uint64_t end = 0;  ///< bytes of complete lines
  std::string chain;      ///< of the last complete line
};

/// Reads a journal. A torn last line is left out; anything else that is wrong (a line that is torn,
/// edited, missing or out of order, another version) throws InputError with file and line.
JournalContents read_journal(const std::filesystem::path& path);

/// True where `path` holds at least a journal's first line.
bool holds_journal(const std::filesystem::path& path);

/// What a journal knows of one cell.
struct CellHistory {
  std::optional<suites::CellResult> first_attempt;  ///< the provisional result
  std::optional<suites::CellResult> final;          ///< the last one that is not provisional
};

/// Hash of a cell, and the round of a run that repeats its cells.
using AttemptKey = std::pair<std::string, std::uint64_t>;

/// The histories of a journal's cells.
std::map<AttemptKey, CellHistory> cell_histories(const JournalContents& contents);

/// True where the verdict stands. A worker that was KILLed says nothing about its cell, which is
/// run again when the run is resumed.
bool is_settled(const CellHistory& history);

/// The append-only record of a run: JSON Lines, a header and then one line a verdict, each written
/// in one call as it comes. Every line ends with a hash over itself and all before it. The disk is
/// told at most every 200 ms, and at the end. A run killed at any moment loses the cells in flight,
/// and at most a torn last line. The file is locked while it is open.
class Journal {
 public:
  static constexpr std::chrono::milliseconds sync_interval{200};
  /// How long a run that ends is waited for.
  static constexpr std::chrono::milliseconds lock_deadline{2000};

  /// Makes the file `path`. Throws InputError where it cannot be written.
  Journal(const std::filesystem::path& path, const JournalHeader& header);
  /// Opens the journal of a run that is over, changing nothing yet. Throws InputError where it
  /// cannot be read, or another run writes to it.
  explicit Journal(const std::filesystem::path& path);
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;
  Journal(Journal&&) = delete;
  Journal& operator=(Journal&&) = delete;

  /// What stood in it when it was opened.
  const JournalContents& before() const { return before_; }
  /// Cuts a torn line off and notes that the run goes on.
  void resume();

  /// Throws Error where the medium fails.
  void append(const suites::CellResult& result);
  /// Notes that every cell has its verdict and every report is written.
  void finish(int exit_code);
  /// Syncs where something was written more than `sync_interval` ago.
  void tick();
  void sync();

 private:
  using Clock = std::chrono::steady_clock;
  void write_line(const std::string& object);

  std::filesystem::path path_;
  FileDescriptor file_;
  JournalContents before_;
  std::string chain_;
  bool dirty_ = false;
  Clock::time_point last_sync_;
};

/// Throws InputError where a run writes to the journal `path`.
void require_unlocked(const std::filesystem::path& path);

}  // namespace cgconform::harness

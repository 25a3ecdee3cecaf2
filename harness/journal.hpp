#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "harness/file_descriptor.hpp"
#include "suites/result_record.hpp"

namespace cgconform::harness {

/// What a run has to share with the one it resumes.
struct JournalHeader {
  int version = 1;
  std::string matrix;
  std::string matrix_hash;
  std::string binary_hash;
  std::uint64_t seed = 0;
  std::string device;
  std::vector<std::string> options;  ///< that decide what is run and how it is judged
  friend bool operator==(const JournalHeader&, const JournalHeader&) = default;
};

/// The append-only record of a run: JSON Lines, a header and then one line a verdict, each written
/// in one call as it comes. The disk is told at most every 200 ms, and at the end. A run killed at
/// any moment loses the cells in flight, and at most a torn last line.
class Journal {
 public:
  static constexpr std::chrono::milliseconds sync_interval{200};

  /// Makes the file `path`. Throws InputError where it cannot be written.
  Journal(const std::filesystem::path& path, const JournalHeader& header);
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;
  Journal(Journal&&) = delete;
  Journal& operator=(Journal&&) = delete;

  /// Throws Error where the medium fails.
  void append(const suites::CellResult& result);
  /// Syncs where something was written more than `sync_interval` ago.
  void tick();
  void sync();

 private:
  using Clock = std::chrono::steady_clock;
  void write_line(std::string line);

  std::filesystem::path path_;
  FileDescriptor file_;
  bool dirty_ = false;
  Clock::time_point last_sync_;
};

struct JournalContents {
  JournalHeader header;
  std::vector<suites::CellResult> results;  ///< in the order written, provisional ones included
  bool torn = false;                        ///< the last line was not complete
};

/// Reads a journal. A torn last line is left out; anything else that is wrong throws InputError
/// with file and line.
JournalContents read_journal(const std::filesystem::path& path);

}  // namespace cgconform::harness

#include "harness/journal.hpp"

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "matrix/error.hpp"
#include "tests/temporary_directory.hpp"

namespace cgconform::harness {
namespace {

using ::testing::HasSubstr;
using testing::read_file;
using testing::TemporaryDirectory;

JournalHeader header() {
  JournalHeader header;
  header.matrix = "smoke";
  header.matrix_hash = "0011";
  header.binary_hash = "2233";
  header.seed = 7;
  header.device = "reference";
  header.options = {"matrix=smoke", "seed=7"};
  return header;
}

suites::CellResult result(const std::string& hash, suites::Verdict verdict) {
  suites::CellResult result;
  result.id = "impl=local/" + hash;
  result.hash = hash;
  result.verdict = verdict;
  return result;
}

TEST(Journal, GivesBackHeaderAndVerdictsInOrder) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "journal.jsonl";
  {
    Journal journal(path, header());
    journal.append(result("aa", suites::Verdict::pass));
    journal.append(result("bb", suites::Verdict::crash));
  }
  const JournalContents contents = read_journal(path);
  EXPECT_EQ(contents.header, header());
  ASSERT_EQ(contents.results.size(), 2U);
  EXPECT_EQ(contents.results[0], result("aa", suites::Verdict::pass));
  EXPECT_EQ(contents.results[1], result("bb", suites::Verdict::crash));
  EXPECT_FALSE(contents.torn);
}

TEST(Journal, HoldsEachVerdictAsSoonAsItIsAppended) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "journal.jsonl";
  Journal journal(path, header());
  journal.append(result("aa", suites::Verdict::pass));
  EXPECT_EQ(read_journal(path).results.size(), 1U);
}

TEST(Journal, IsReadAtEveryLengthAKillCanLeave) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "journal.jsonl";
  {
    Journal journal(path, header());
    journal.append(result("aa", suites::Verdict::pass));
    journal.append(result("bb", suites::Verdict::hang));
  }
  const std::string text = read_file(path);
  const std::size_t header_end = text.find('\n') + 1;
  const auto cut = directory.path() / "cut.jsonl";
  for (std::size_t length = header_end; length <= text.size(); ++length) {
    std::ofstream(cut, std::ios::binary) << text.substr(0, length);
    const JournalContents contents = read_journal(cut);
    const bool whole_line = text[length - 1] == '\n';
    EXPECT_EQ(contents.torn, !whole_line) << length;
    EXPECT_EQ(contents.results.size(),
              static_cast<std::size_t>(std::count(
                  text.begin(), text.begin() + static_cast<std::ptrdiff_t>(length), '\n')) -
                  1);
  }
}

/// What is wrong with the journal that holds `text`; empty where nothing is.
std::string complaint_about(const std::string& text) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "journal.jsonl";
  std::ofstream(path, std::ios::binary) << text;
  try {
    read_journal(path);
    return {};
  } catch (const InputError& error) {
    return error.what();
  }
}

/// The lines of a journal with three verdicts, line feeds included.
std::vector<std::string> journal_lines() {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "journal.jsonl";
  {
    Journal journal(path, header());
    for (const char* hash : {"aa", "bb", "cc"}) {
      journal.append(result(hash, suites::Verdict::pass));
    }
  }
  std::istringstream text(read_file(path));
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(line + '\n');
  return lines;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line;
  return text;
}

TEST(Journal, AcceptsItsOwnLines) {
  EXPECT_EQ(complaint_about(joined(journal_lines())), "");
}

TEST(Journal, RefusesAnEditedVerdictWithItsPlace) {
  auto lines = journal_lines();
  lines[2].replace(lines[2].find("PASS"), 4, "SKIP");
  EXPECT_THAT(complaint_about(joined(lines)), HasSubstr("journal.jsonl:3"));
}

TEST(Journal, RefusesAnEditedHeaderWithItsPlace) {
  auto lines = journal_lines();
  lines[0].replace(lines[0].find("\"seed\":7"), 8, "\"seed\":8");
  EXPECT_THAT(complaint_about(joined(lines)), HasSubstr("journal.jsonl:1"));
}

TEST(Journal, RefusesALineTornInTheMiddleWithItsPlace) {
  auto lines = journal_lines();
  lines[2].resize(lines[2].size() / 2);
  EXPECT_THAT(complaint_about(joined(lines)), HasSubstr("journal.jsonl:3"));
  lines = journal_lines();
  lines[1] = std::string(lines[1].size() - 1, '\0') + '\n';
  EXPECT_THAT(complaint_about(joined(lines)), HasSubstr("journal.jsonl:2"));
}

TEST(Journal, RefusesMissingDoubledAndSwappedLinesWithTheirPlace) {
  auto lines = journal_lines();
  lines.erase(lines.begin() + 1);
  EXPECT_THAT(complaint_about(joined(lines)), HasSubstr("journal.jsonl:2"));
  lines = journal_lines();
  lines.insert(lines.begin() + 2, lines[1]);
  EXPECT_THAT(complaint_about(joined(lines)), HasSubstr("journal.jsonl:3"));
  lines = journal_lines();
  std::swap(lines[1], lines[2]);
  EXPECT_THAT(complaint_about(joined(lines)), HasSubstr("journal.jsonl:2"));
}

TEST(Journal, RefusesAnotherVersionByItsNumber) {
  EXPECT_THAT(complaint_about("{\"journal_version\":1}\n"), HasSubstr("version 1"));
}

TEST(Journal, GoesOnBehindATornLineAndRemembersThatItDid) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "journal.jsonl";
  std::ofstream(path, std::ios::binary) << joined(journal_lines()) << "{\"index\":";
  {
    Journal journal(path);
    EXPECT_TRUE(journal.before().torn);
    EXPECT_EQ(journal.before().results.size(), 3U);
    journal.resume();
    journal.append(result("dd", suites::Verdict::hang));
  }
  const JournalContents contents = read_journal(path);
  EXPECT_FALSE(contents.torn);
  EXPECT_EQ(contents.resumptions, 1);
  ASSERT_EQ(contents.results.size(), 4U);
  EXPECT_EQ(contents.results.back().hash, "dd");
}

TEST(Journal, SaysThatItsRunIsFinishedUntilItIsResumed) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "journal.jsonl";
  {
    Journal journal(path, header());
    EXPECT_EQ(read_journal(path).finished, std::nullopt);
    journal.finish(1);
  }
  EXPECT_EQ(read_journal(path).finished, 1);
  Journal journal(path);
  journal.resume();
  EXPECT_EQ(read_journal(path).finished, std::nullopt);
}

TEST(Journal, IsLockedWhileARunWritesToIt) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "journal.jsonl";
  {
    const Journal journal(path, header());
    EXPECT_THROW(require_unlocked(path), InputError);
    EXPECT_THROW(const Journal second(path), InputError);
  }
  EXPECT_NO_THROW(require_unlocked(path));
}

/// The result of a cell one of whose workers ended by `signal`.
suites::CellResult ended_by(int signal) {
  suites::CellResult ended = result("aa", suites::Verdict::crash);
  ended.ranks.resize(1);
  ended.ranks[0].abnormal_end = suites::AbnormalEnd{.signal = signal};
  return ended;
}

TEST(Journal, LetsEveryVerdictStandButThatOfAKilledWorker) {
  EXPECT_TRUE(is_settled({.final = result("aa", suites::Verdict::pass)}));
  EXPECT_TRUE(is_settled({.final = result("aa", suites::Verdict::hang)}));
  EXPECT_TRUE(is_settled({.final = ended_by(SIGSEGV)}));
  EXPECT_FALSE(is_settled({.final = ended_by(SIGKILL)}));
  EXPECT_FALSE(is_settled({.first_attempt = result("aa", suites::Verdict::hang)}));
}

TEST(Journal, TellsFirstAttemptsFromFinalResults) {
  JournalContents contents;
  suites::CellResult first = result("aa", suites::Verdict::crash);
  first.provisional = true;
  contents.results = {first, result("bb", suites::Verdict::pass)};
  auto histories = cell_histories(contents);
  EXPECT_FALSE(histories.at({"aa", 0}).final);
  EXPECT_EQ(histories.at({"bb", 0}).final->verdict, suites::Verdict::pass);
  contents.results.push_back(result("aa", suites::Verdict::flaky));
  histories = cell_histories(contents);
  EXPECT_EQ(histories.at({"aa", 0}).first_attempt->verdict, suites::Verdict::crash);
  EXPECT_EQ(histories.at({"aa", 0}).final->verdict, suites::Verdict::flaky);
}

TEST(Journal, NamesTheLineThatIsNoVerdict) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "journal.jsonl";
  { const Journal journal(path, header()); }
  std::ofstream(path, std::ios::app) << "{\"id\": 1}\n";
  try {
    read_journal(path);
    FAIL() << "a line without a verdict was accepted";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("journal.jsonl:2"));
  }
}

TEST(Journal, KeepsBytesThatAreNoUtf8FromLosingAVerdict) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "journal.jsonl";
  suites::CellResult broken = result("aa", suites::Verdict::crash);
  broken.reason = "label \xff\xfe";
  Journal journal(path, header());
  journal.append(broken);
  EXPECT_EQ(read_journal(path).results.at(0).verdict, suites::Verdict::crash);
}

TEST(Journal, RefusesToReplaceAnother) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "journal.jsonl";
  const Journal first(path, header());
  EXPECT_THROW(Journal(path, header()), InputError);
}

}  // namespace
}  // namespace cgconform::harness
